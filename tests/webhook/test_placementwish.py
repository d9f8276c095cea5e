"""Which wishes the annotations make, and which have no effect."""

import pytest

from hami.preferences import NumaAlignment, Preferences, ScoringWeights
from webhook.placementwish import fill_of, near_of, numa_bound
from webhook.sharerequest import Near

STRICT = Preferences(numa_alignment=NumaAlignment.STRICT)
BOUND = Preferences(numa_bind=True, gpu_policies=("numa", "topology-aware"))


def test_a_must_leaves_nothing_to_wish_for() -> None:
    """Devices of one NUMA node may still be of one root."""
    assert numa_bound(STRICT)
    assert numa_bound(BOUND)
    assert near_of(BOUND) == (Near.PCIE_ROOT,)


@pytest.mark.parametrize(
    ("preferences", "near"),
    [
        (Preferences(), ()),
        (Preferences(numa_alignment=NumaAlignment.BEST_EFFORT), (Near.NUMA_NODE,)),
        (Preferences(gpu_policies=("binpack", "numa")), (Near.NUMA_NODE,)),
        (Preferences(gpu_policies=("numa", "topology-aware")), (Near.PCIE_ROOT, Near.NUMA_NODE)),
    ],
)
def test_the_nearest_is_the_best(preferences: Preferences, near: tuple[Near, ...]) -> None:
    """Two GPUs of one root are of one NUMA node as well."""
    assert near_of(preferences) == near
    assert not numa_bound(preferences)


@pytest.mark.parametrize(
    ("gpu", "node", "expected", "warnings"),
    [
        ((), None, None, 0),
        (("mutex",), None, None, 0),
        (("numa", "spread"), None, "spread", 0),
        ((), "binpack", "binpack", 0),
        (("binpack",), "binpack", "binpack", 0),
        (("spread",), "binpack", "spread", 1),
    ],
)
def test_the_policy_of_gpus_goes_before_that_of_nodes(
    gpu: tuple[str, ...], node: str | None, expected: str | None, warnings: int
) -> None:
    """An alternative speaks of GPUs, and a node is liked for those."""
    preferences = Preferences(gpu_policies=gpu, node_policy=node)
    found, told = fill_of(preferences, published=True)
    assert (found, len(told)) == (expected, warnings)


def test_what_has_no_effect_is_said() -> None:
    """Weights never have any, policies only where GPUs say how full they are."""
    preferences = Preferences(
        gpu_policies=("binpack",),
        node_policy="spread",
        scoring_weights=ScoringWeights(slot=1, core=1, memory=3),
    )
    found, told = fill_of(preferences, published=False)
    assert found is None
    assert [each.field for each in told] == [
        "metadata.annotations[hami.io/device-scoring-weights]",
        "metadata.annotations[hami.io/gpu-scheduler-policy]",
        "metadata.annotations[hami.io/node-scheduler-policy]",
    ]
