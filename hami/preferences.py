"""What the annotations of a pod say about which device it wants.

HAMi reads them when it schedules, leniently; here they are read once, at admission. An empty or
blank value is no constraint, as in HAMi.
"""

from dataclasses import dataclass
from enum import StrEnum


class NumaAlignment(StrEnum):
    """`hami.io/numa-alignment`."""

    BEST_EFFORT = "best-effort"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringWeights:
    """`hami.io/device-scoring-weights`."""

    slot: int
    core: int
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """Which NVIDIA GPUs a pod takes, and which it would rather have."""

    use_types: tuple[str, ...] = ()
    """Substrings of the model, in lower case; any of them is enough."""
    nouse_types: tuple[str, ...] = ()
    use_uuids: tuple[str, ...] = ()
    nouse_uuids: tuple[str, ...] = ()
    numa_bind: bool = False
    numa_alignment: NumaAlignment | None = None
    modes: str | None = None
    """The text of `vgpu-mode`: a device is taken when the text contains the device's mode."""
    gpu_policies: tuple[str, ...] = ()
    """`hami.io/gpu-scheduler-policy`: `binpack`, `spread`, `topology-aware`, `mutex`, `numa`."""
    node_policy: str | None = None
    """`binpack` or `spread`."""
    scoring_weights: ScoringWeights | None = None
