"""What a translation takes from the cluster: a few sets of numbers, made from ResourceSlices."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What GPUs there are; all empty where no slice of ours exists yet."""

    gpus_by_memory_mib: Mapping[int, int] = field(default_factory=dict)
    """How many GPUs there are of each total memory."""
    gpus_by_shares: Mapping[int, int] = field(default_factory=dict)
    """How many shared GPUs offer so many shares."""
    mig_by_memory_mib: Mapping[int, int] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    """The `productName` of every GPU."""
    fill_levels: bool = False
    """Whether GPUs publish `fillLevel`."""
    counts_are_distinct: bool = True
    """Whether `count: 2` gives two different GPUs: since Kubernetes 1.36."""
