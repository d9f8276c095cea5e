"""How the GPUs of a node are linked: how near on the PCI tree, and by how many NVLinks.

NVML tells a link by its number on one GPU, whether it is up, and what is at its other end: a GPU,
by its PCI bus id, or an NVSwitch. A switch leads to every other GPU on it, so between two of them
there are as many links as the one with fewer has up. A number that a GPU does not have is an
invalid argument; a GPU without NVLink supports none of the calls.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Any, Final

from gpu import sysfs
from gpu.errors import NvmlError
from gpu.model import Gpu, GpuUuid, PciBusId
from gpu.scan import ABSENT, Call

_LINKS_MAX: Final = 36
_UP: Final = 1
_TO_SWITCH: Final = 2
_NO_LINK: Final = ABSENT | {"INVALID_ARGUMENT"}


class Nearness(StrEnum):
    """Where the paths of two GPUs meet, from near to far."""

    SAME_BOARD = "same-board"
    SINGLE_SWITCH = "single-switch"
    MULTI_SWITCH = "multi-switch"
    HOST_BRIDGE = "host-bridge"
    SAME_CPU = "same-cpu"
    CROSS_CPU = "cross-cpu"


# By number, which is part of the library's binary interface (nvmlGpuTopologyLevel_t).
_LEVELS: Final = {
    0: Nearness.SAME_BOARD,
    10: Nearness.SINGLE_SWITCH,
    20: Nearness.MULTI_SWITCH,
    30: Nearness.HOST_BRIDGE,
    40: Nearness.SAME_CPU,
    50: Nearness.CROSS_CPU,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What is between two GPUs; *one* is before *other* in the order of PCI bus ids."""

    one: GpuUuid
    other: GpuUuid
    nearness: Nearness | None
    """`None` where the driver does not tell."""
    nvlinks: int
    """That are up, as *one* tells."""
    nvlinks_back: int
    """The same as *other* tells."""

    @property
    def is_one_sided(self) -> bool:
        """Tell whether only one of the two knows of NVLinks, which is a fault."""
        return bool(self.nvlinks) != bool(self.nvlinks_back)


@dataclass(slots=True)
class _Ends:
    """What is at the other ends of the links of one GPU."""

    gpus: dict[PciBusId, int] = field(default_factory=dict)
    switches: int = 0


def read_links(call: Call, gpus: Sequence[Gpu], handles: Mapping[GpuUuid, Any]) -> tuple[Link, ...]:
    """Return what is between each pair of *gpus*; pairs with a GPU that fails are left out."""
    ends = dict[GpuUuid, _Ends]()
    for gpu in gpus:
        try:
            ends[gpu.uuid] = _ends(call, handles[gpu.uuid])
        except (KeyError, NvmlError):
            continue
    readable = [gpu for gpu in gpus if gpu.uuid in ends]
    return tuple(
        _link(call, (one, other), handles, ends) for one, other in combinations(readable, 2)
    )


def _link(
    call: Call,
    pair: tuple[Gpu, Gpu],
    handles: Mapping[GpuUuid, Any],
    ends: Mapping[GpuUuid, _Ends],
) -> Link:
    one, other = pair
    mine, others = ends[one.uuid], ends[other.uuid]
    switched = min(mine.switches, others.switches)
    return Link(
        one=one.uuid,
        other=other.uuid,
        nearness=_nearness(call, handles[one.uuid], handles[other.uuid]),
        nvlinks=mine.gpus.get(other.pci_bus_id, 0) + switched,
        nvlinks_back=others.gpus.get(one.pci_bus_id, 0) + switched,
    )


def _nearness(call: Call, one: Any, other: Any) -> Nearness | None:
    try:
        return _LEVELS.get(call("nvmlDeviceGetTopologyCommonAncestor", one, other))
    except NvmlError:
        return None


def _ends(call: Call, handle: Any) -> _Ends:
    found = _Ends()
    for link in _up(call, handle):
        if _leads_to_switch(call, handle, link):
            found.switches += 1
        elif (bus_id := _remote(call, handle, link)) is not None:
            found.gpus[bus_id] = found.gpus.get(bus_id, 0) + 1
    return found


def _up(call: Call, handle: Any) -> Iterator[int]:
    for link in range(_LINKS_MAX):
        try:
            if call("nvmlDeviceGetNvLinkState", handle, link) == _UP:
                yield link
        except NvmlError as error:
            if error.reason in _NO_LINK:
                return
            raise


def _leads_to_switch(call: Call, handle: Any, link: int) -> bool:
    try:
        return bool(call("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == _TO_SWITCH)
    except NvmlError as error:
        # Drivers before the first switches do not have the call.
        if error.reason in _NO_LINK:
            return False
        raise


def _remote(call: Call, handle: Any, link: int) -> PciBusId | None:
    try:
        return sysfs.pci_bus_id(call("nvmlDeviceGetNvLinkRemotePciInfo", handle, link).busId)
    except NvmlError as error:
        if error.reason in _NO_LINK:
            return None
        raise
    except ValueError:
        return None
