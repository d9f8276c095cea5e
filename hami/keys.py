"""The annotations and labels of pods that HAMi's own parts write, for every vendor.

They are what an allocation is: whoever may set them can take devices that nobody gave him, so
admission keeps everybody else from them. Names as in HAMi (`pkg/util/types.go` and
`pkg/device/*`); the names of chips that have one key each come from its default configuration, and
`is_scheduler_owned` knows those of other chips by their form.
"""

import re
from typing import Final

NODE: Final = "hami.io/vgpu-node"
"""An annotation, and a label of the same name."""
TIME: Final = "hami.io/vgpu-time"
BIND_PHASE: Final = "hami.io/bind-phase"
BIND_TIME: Final = "hami.io/bind-time"
MIG_ALLOCATIONS: Final = "hami.io/vgpu-mig-allocations"

CHIPS: Final = (
    *("Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910B4-1"),
    *("Ascend910C", "Ascend310P"),
    *("MR-V100", "MR-V50", "BI-V150", "BI-V100"),
)
"""Ascend's and Iluvatar's common words by default."""

_PREFIXES: Final = (
    *("vgpu", "cambricon-mlu", "dcu", "hcu", "enflame-gcu", "enflame-vgpu", "mthreads-vgpu"),
    *("metax-gpu", "metax-sgpu", "xpu", "amd", "aws-neuron", "Vastai", "Biren"),
    *CHIPS,
)

TO_ALLOCATE: Final = frozenset(f"hami.io/{each}-devices-to-allocate" for each in _PREFIXES)
ALLOCATED: Final = frozenset(
    {*(f"hami.io/{each}-devices-allocated" for each in _PREFIXES), "hami.io/kunlun-allocated"}
)

_OF_VENDORS: Final = frozenset(
    {
        "CAMBRICON_DSMLU_PROFILE",
        "CAMBRICON_DSMLU_ASSIGNED",
        "mthreads.com/gpu-index",
        "mthreads.com/predicate-time",
        "mthreads.com/predicate-node",
        "BAIDU_COM_DEVICE_IDX",
        "AWS_NEURON_IDS",
        "NEURON_ALLOC_TIME",
        "NEURON_ALLOCATED",
        "NEURON_RESOURCE_TYPE",
        "aws.amazon.com/predicate-node",
        "predicate-time",
        "metax-tech.com/gpu-devices-allocated",
        "metax-tech.com/predicate-time",
        "enflame.com/gcu-assigned",
        "enflame.com/gcu-assigned-time",
        "enflame.com/gcu-assigned-index",
        "enflame.com/gcu-assigned-id",
        "enflame.com/gcu-assigned-minor",
        "enflame.com/gcu-request-size",
        "assigned-containers",
    }
    | {f"huawei.com/{chip}" for chip in CHIPS if chip.startswith("Ascend")}
)
"""What plugins of single vendors read beside the lists of devices."""

SCHEDULER_OWNED: Final = frozenset(
    {NODE, TIME, BIND_PHASE, BIND_TIME, MIG_ALLOCATIONS} | TO_ALLOCATE | ALLOCATED | _OF_VENDORS
)
"""Annotations that only HAMi's scheduler and device plugins write."""
SCHEDULER_OWNED_LABELS: Final = frozenset({NODE})

_LISTS: Final = re.compile(r"hami\.io/.+-devices-(?:to-allocate|allocated)", re.DOTALL)


def is_scheduler_owned(annotation: str) -> bool:
    """Tell whether *annotation* is one of these, or a list of devices of a chip not named here."""
    return annotation in SCHEDULER_OWNED or _LISTS.fullmatch(annotation) is not None
