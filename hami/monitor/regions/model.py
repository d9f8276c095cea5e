"""What a region says, as plain values; sizes are bytes, as the library counts."""

from dataclasses import dataclass
from enum import StrEnum

from hami.monitor.regions.layouts import Layout

CORES_ALL = 100


class Trouble(StrEnum):
    """Why a region says nothing."""

    ABSENT = "absent"
    """There is no such file."""
    UNUSED = "unused"
    """It is there, and no process has written to it yet."""
    BUSY = "busy"
    """It is being reset at this moment."""
    UNREADABLE = "unreadable"
    """It is no region, or one of a library that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Why there is no `Region`; *reason* is one sentence without its point."""

    trouble: Trouble
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDevice:
    """A GPU as the container sees it."""

    index: int
    """Its position, by which processes tell what they use of it."""
    uuid: str
    memory_limit_bytes: int | None
    """`None` where there is no limit."""
    sm_limit: int
    """Percent; the library limits from 1 to 99 only."""

    @property
    def is_core_limited(self) -> bool:
        """Tell whether the library can hold back what runs on it."""
        return 0 < self.sm_limit < CORES_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What one process uses of one device."""

    context_bytes: int
    module_bytes: int
    data_bytes: int
    offset_bytes: int
    total_bytes: int
    monitor_used_bytes: int
    """What NVML has told the library, where it has found the process there."""
    sm_util: int | None
    """Percent; `None` where the library of that time kept none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionProcess:
    """A living process that has a slot."""

    pid: int
    """In the container."""
    host_pid: int
    """0 until the library has found it."""
    used: tuple[DeviceUse, ...] | None
    """By position of the device; `None` if it was never seen between two writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One region at one moment."""

    layout: Layout
    devices: tuple[RegionDevice, ...]
    """Those whose UUID can be read."""
    processes: tuple[RegionProcess, ...]
    priority: int
    """0 is high; larger numbers are lower."""
    utilization_switch: int
    """1: the core limit holds; 0: it is lifted, unless the container says otherwise."""
    recent_kernel: int
    """Above 0: kernels were launched lately; below: launches wait."""
    last_kernel_s: int | None
    """Unix time; `None` where there was no launch or the library of that time kept none."""

    @property
    def version(self) -> str:
        """Return the name of the layout."""
        return self.layout.name

    def uses(self, index: int) -> tuple[DeviceUse, ...] | None:
        """Return what each process uses of the device at *index*; `None` if that is not known."""
        found: list[DeviceUse] = []
        for process in self.processes:
            if process.used is None:
                return None
            found += process.used[index : index + 1]
        return tuple(found)

    def used_bytes(self, index: int) -> int | None:
        """Return how much memory of the device is used; `None` if that is not known."""
        uses = self.uses(index)
        return None if uses is None else sum(each.total_bytes for each in uses)

    def utilization_percent(self, index: int) -> int | None:
        """Return how busy the device is with these processes, 100 at most; `None` if not known.

        The library learns it from NVML, for processes that it has found there.
        """
        total = 0
        for process in self.processes:
            if process.used is None:
                return None
            use = process.used[index]
            if use.sm_util is None or (use.total_bytes and not process.host_pid):
                return None
            total += use.sm_util
        return min(CORES_ALL, total)
