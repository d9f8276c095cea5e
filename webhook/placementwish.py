"""Which of the GPUs that are good a pod had better get: near to one another, full or empty.

HAMi sorts nodes and GPUs by its policies. The scheduler of Kubernetes sorts nothing inside a
claim; what an ordered list of alternatives cannot say is a warning.
"""

from typing import Final

from gpu.refusal import Refusal
from hami import userkeys as keys
from hami.preferences import NumaAlignment, Preferences
from hami.wording import shown
from webhook.sharerequest import Fill, Near

_FILLS: Final[dict[str, Fill]] = {"binpack": "binpack", "spread": "spread"}


def numa_bound(preferences: Preferences) -> bool:
    """Tell whether several devices must be of one NUMA node."""
    return preferences.numa_bind or preferences.numa_alignment is NumaAlignment.STRICT


def near_of(preferences: Preferences) -> tuple[Near, ...]:
    """Return what several devices had better have in common, the best first."""
    found = []
    if "topology-aware" in preferences.gpu_policies:
        found.append(Near.PCIE_ROOT)
    soft = preferences.numa_alignment is NumaAlignment.BEST_EFFORT
    if (soft or "numa" in preferences.gpu_policies) and not numa_bound(preferences):
        found.append(Near.NUMA_NODE)
    return tuple(found)


def fill_of(preferences: Preferences, *, published: bool) -> tuple[Fill | None, list[Refusal]]:
    """Return whether full or empty GPUs are liked, and what of the policies has no effect.

    *published* tells whether GPUs say how full they are.
    """
    of_gpus = next((each for each in preferences.gpu_policies if each in _FILLS), None)
    of_nodes = preferences.node_policy
    warnings = []
    if preferences.scoring_weights is not None:
        said = "scoring weights have no effect on claims"
        warnings.append(_without_effect(keys.SCORING_WEIGHTS, preferences.scoring_weights, said))
    if not published:
        why = "has no effect on claims while GPUs do not publish how full they are"
        told = ((keys.GPU_POLICY, of_gpus), (keys.NODE_POLICY, of_nodes))
        return None, warnings + [_without_effect(key, text, why) for key, text in told if text]
    if of_gpus and of_nodes and of_gpus != of_nodes:
        why = f"claims prefer GPUs, and `{of_gpus}` of {keys.GPU_POLICY} decides"
        warnings.append(_without_effect(keys.NODE_POLICY, of_nodes, why))
    return _FILLS.get(of_gpus or of_nodes or ""), warnings


def _without_effect(key: str, value: object, limit: str) -> Refusal:
    return Refusal(
        code="WithoutEffect",
        field=f"metadata.annotations[{key}]",
        value=shown(value),
        limit=limit,
    )
