"""The six ways in which HAMi-core has laid out its region, as data.

Offsets are those that a C compiler gave for the library's own header at each commit (HAMi-core:
src/multiprocess/multiprocess_memory_limit.h, LP64, `sem_t` of 32 bytes), and files that the library
wrote at these commits are among the tests. HAMi's releases carry them as follows: v2.4.0 `V0`,
v2.4.1 to v2.8.0 `V1_1`, v2.8.1 `V1_1_LONG`, v2.8.2 and later `V1_2`.
"""

from dataclasses import dataclass
from typing import Final

MAGIC: Final = 19920718
DEVICES_MAX: Final = 16
PROCESSES_MAX: Final = 1024
UUID_SIZE: Final = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLayout:
    """Where things are in the slot of one process; its pids come first, four bytes each."""

    size: int
    used: int
    """16 entries of *used_size*: context, module, data, offset and total in bytes, first of all."""
    used_size: int
    monitor_used: int
    util: int | None
    """16 entries of *util_size*: decoder, encoder and SM in percent, first of all."""
    util_size: int
    status: int
    seqlock: int | None
    """Odd while the slot is being written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where things are in a region; the process slots follow one another from *slots*."""

    name: str
    size: int
    """Of the structure; the library makes the file one byte longer."""
    version: tuple[int, int] | None
    """What stands at 4 and 8; `None` where there is no version."""
    device_count: int
    uuids: int
    memory_limits: int
    core_limits: int
    slots: int
    slot: SlotLayout
    process_count: int
    utilization_switch: int
    recent_kernel: int
    priority: int
    last_kernel: int | None


_SLOT_V0_PLAIN: Final = SlotLayout(
    size=784, used=8, used_size=40, monitor_used=648, util=None, util_size=0, status=776,
    seqlock=None,
)  # fmt: skip
_SLOT_V0: Final = SlotLayout(
    size=1168, used=8, used_size=40, monitor_used=648, util=776, util_size=24, status=1160,
    seqlock=None,
)  # fmt: skip
_SLOT_CLASSIC: Final = SlotLayout(
    size=1960, used=8, used_size=64, monitor_used=1032, util=1160, util_size=48, status=1928,
    seqlock=None,
)  # fmt: skip
_SLOT_SEQLOCK_FIRST: Final = SlotLayout(
    size=1960, used=16, used_size=64, monitor_used=1040, util=1168, util_size=48, status=1936,
    seqlock=8,
)  # fmt: skip
_SLOT_SEQLOCK_LAST: Final = SlotLayout(
    size=1960, used=8, used_size=64, monitor_used=1032, util=1160, util_size=48, status=1928,
    seqlock=1936,
)  # fmt: skip


def _v0(name: str, slot: SlotLayout) -> Layout:
    slots = 1848
    end = slots + PROCESSES_MAX * slot.size
    return Layout(
        name=name, size=end + 16, version=None, device_count=48, uuids=56, memory_limits=1592,
        core_limits=1720, slots=slots, slot=slot, process_count=end, utilization_switch=end + 4,
        recent_kernel=end + 8, priority=end + 12, last_kernel=None,
    )  # fmt: skip


def _v1(name: str, version: tuple[int, int], slot: SlotLayout, *, long: bool = False) -> Layout:
    """Return a layout of version 1; a *long* one has its second semaphore before the devices."""
    devices = 88 if long else 56
    slots = devices + 1800
    end = slots + PROCESSES_MAX * slot.size
    return Layout(
        name=name, size=end + 56, version=version, device_count=devices, uuids=devices + 8,
        memory_limits=devices + 1544, core_limits=devices + 1672, slots=slots, slot=slot,
        process_count=end, utilization_switch=end + 4, recent_kernel=end + 8, priority=end + 12,
        last_kernel=end + 16,
    )  # fmt: skip


V0_PLAIN: Final = _v0("v0 without utilisation", _SLOT_V0_PLAIN)
V0: Final = _v0("v0", _SLOT_V0)
V1_1: Final = _v1("1.1", (1, 1), _SLOT_CLASSIC)
V1_1_SEQLOCK: Final = _v1("1.1 with seqlock", (1, 1), _SLOT_SEQLOCK_FIRST)
V1_1_LONG: Final = _v1("1.1 of 2008984 bytes", (1, 1), _SLOT_SEQLOCK_FIRST, long=True)
V1_2: Final = _v1("1.2", (1, 2), _SLOT_SEQLOCK_LAST)

LAYOUTS: Final = (V0_PLAIN, V0, V1_1, V1_1_SEQLOCK, V1_1_LONG, V1_2)
HEADER_SIZE: Final = max(each.slots for each in LAYOUTS)
