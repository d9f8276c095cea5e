"""Reads a region without a lock, and without waiting for anybody.

A writer makes the sequence number of a slot odd before it writes and even afterwards, where the
layout has one. One that was killed in between leaves it odd for ever, and one that is stopped for
as long as it is: so a slot is tried a few times, all slots together have an allowance, and what
was never seen between two writes is not known. A slot counts only while its process lives: the
library leaves the usage of killed processes where it is.
"""

import re
import time
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from hami.monitor.regions.file import RegionFile, UnfitError, opened
from hami.monitor.regions.layouts import DEVICES_MAX, UUID_SIZE, Layout
from hami.monitor.regions.model import (
    DeviceUse,
    Region,
    RegionDevice,
    RegionProcess,
    Trouble,
    Unreadable,
)
from hami.monitor.regions.recognition import STATUSES, process_count, recognize

_TRIES: Final = 40
_TRIES_AT_ONCE: Final = 32
"""After these there is a pause before each try: the writer may be waiting for a processor."""
_PAUSE_S: Final = 0.0005
_ALLOWANCE: Final = 400
"""Tries of all slots together."""
_UNLIMITED: Final = 2**63
_UUID: Final = re.compile(r"(?:GPU|MIG)-[A-Za-z0-9/-]+", re.ASCII)

_WORDS: Final = Struct(f"<{DEVICES_MAX}Q")
_PIDS: Final = Struct("<ii")
_USED: Final = Struct("<5Q")
_UTIL: Final = Struct("<3Q")
_MONITOR_USED: Final = Struct("<Q")


class Liveness(Protocol):
    """Tells whether the process with *pid* in the container lives; *host_pid* may be 0."""

    def __call__(self, pid: int, host_pid: int, /) -> bool:
        """Return whether it does."""


def read_region(path: Path, *, is_alive: Liveness) -> Region | Unreadable:
    """Return what the region at *path* says now, or why it says nothing; never raises."""
    try:
        with opened(path) as file:
            return _Reader(file, is_alive).region()
    except UnfitError as error:
        return Unreadable(trouble=error.trouble, reason=error.reason)
    except OSError as error:
        return Unreadable(trouble=Trouble.UNREADABLE, reason=error.strerror or str(error))


class _Reader:
    def __init__(self, file: RegionFile, is_alive: Liveness) -> None:
        self._file = file
        self._is_alive = is_alive
        self._layout: Layout = recognize(file)
        self._devices = file.uint64(self._layout.device_count)
        self._tries_left = _ALLOWANCE

    def region(self) -> Region:
        layout, file = self._layout, self._file
        last_kernel = None if layout.last_kernel is None else file.uint64(layout.last_kernel)
        return Region(
            layout=layout,
            devices=self._region_devices(),
            processes=self._processes(),
            priority=file.int32(layout.priority),
            utilization_switch=file.int32(layout.utilization_switch),
            recent_kernel=file.int32(layout.recent_kernel),
            last_kernel_s=last_kernel if last_kernel and last_kernel < _UNLIMITED else None,
        )

    def _region_devices(self) -> tuple[RegionDevice, ...]:
        layout = self._layout
        memory = _WORDS.unpack(self._file.read(layout.memory_limits, _WORDS.size))
        cores = _WORDS.unpack(self._file.read(layout.core_limits, _WORDS.size))
        uuids = self._file.read(layout.uuids, UUID_SIZE * DEVICES_MAX)
        found: list[RegionDevice] = []
        for index in range(self._devices):
            raw = uuids[index * UUID_SIZE : (index + 1) * UUID_SIZE].partition(b"\0")[0]
            uuid = raw.decode("ascii", errors="replace")
            if _UUID.fullmatch(uuid):
                limit = memory[index]
                found.append(
                    RegionDevice(
                        index=index,
                        uuid=uuid,
                        memory_limit_bytes=limit if 0 < limit < _UNLIMITED else None,
                        sm_limit=min(cores[index], _UNLIMITED),
                    )
                )
        return tuple(found)

    def _processes(self) -> tuple[RegionProcess, ...]:
        layout, found = self._layout, []
        for number in range(process_count(self._file, layout)):
            start = layout.slots + number * layout.slot.size
            pid, host_pid = _PIDS.unpack(self._file.read(start, _PIDS.size))
            is_used = self._file.int32(start + layout.slot.status) in STATUSES
            if pid > 0 and is_used and self._is_alive(pid, host_pid):
                slot = self._settled(start)
                used = None if slot is None else self._used(slot)
                found.append(RegionProcess(pid=pid, host_pid=host_pid, used=used))
        return tuple(found)

    def _settled(self, start: int) -> bytes | None:
        """Return the slot as it was between two writes; `None` if it was never seen so."""
        seqlock = self._layout.slot.seqlock
        before: int | bytes = b""
        for number in range(_TRIES):
            if number:
                if self._tries_left == 0:
                    return None
                self._tries_left -= 1
            if number >= _TRIES_AT_ONCE:
                time.sleep(_PAUSE_S)
            if seqlock is None:
                slot = self._file.read(start, self._layout.slot.size)
                # Twice the same is all that can be had without a number.
                if slot == before:
                    return slot
                before = slot
                continue
            before = self._file.uint64(start + seqlock)
            if before % 2 == 0:
                slot = self._file.read(start, self._layout.slot.size)
                if self._file.uint64(start + seqlock) == before:
                    return slot
        return None

    def _used(self, slot: bytes) -> tuple[DeviceUse, ...]:
        layout = self._layout.slot
        found = []
        for index in range(self._devices):
            context, module, data, offset, total = _USED.unpack_from(
                slot, layout.used + index * layout.used_size
            )
            (seen,) = _MONITOR_USED.unpack_from(slot, layout.monitor_used + index * 8)
            sm_util = None
            if layout.util is not None:
                _, _, sm_util = _UTIL.unpack_from(slot, layout.util + index * layout.util_size)
            found.append(
                DeviceUse(
                    context_bytes=context,
                    module_bytes=module,
                    data_bytes=data,
                    offset_bytes=offset,
                    total_bytes=total,
                    monitor_used_bytes=seen,
                    sm_util=sm_util,
                )
            )
        return tuple(found)
