"""Tells which of the six layouts a region has: by its size, its version, and its slots.

The size alone does not tell: the library keeps that of a file which is there already, and the agent
makes files beforehand. The version does not either: three layouts call themselves 1.1, and two of
them are of one size and differ in the slots, where the status of a living process stands.
"""

from typing import Final

from hami.monitor.regions.file import RegionFile, UnfitError, unfit
from hami.monitor.regions.layouts import (
    DEVICES_MAX,
    MAGIC,
    PROCESSES_MAX,
    V0,
    V0_PLAIN,
    V1_1,
    V1_1_LONG,
    V1_1_SEQLOCK,
    V1_2,
    Layout,
)
from hami.monitor.regions.model import Trouble

_EMPTY: Final = bytes(4)
_KINDS: Final = (b"GPU-", b"MIG-")
STATUSES: Final = (1, 2)
"""Of a process that runs, and of one that is held by a signal."""


def recognize(file: RegionFile) -> Layout:
    """Return the layout of *file*, in which all slots of its processes are; else `UnfitError`."""
    if file.holds_nothing and file.size:
        raise UnfitError(Trouble.UNUSED, "no process has used it yet")
    magic = file.int32(0)
    if magic == 0:
        raise UnfitError(Trouble.UNUSED, "no process has set it up yet")
    if magic != MAGIC:
        message = f"it begins with {magic} and not {MAGIC}"
        raise unfit(message)
    layout = _of_size_and_version(file)
    if file.size < layout.size:
        message = f"it has {file.size} bytes, and layout {layout.name} {layout.size}"
        raise unfit(message)
    if layout is V1_1:
        layout = _of_slots(file)
    devices, processes = file.uint64(layout.device_count), process_count(file, layout)
    if devices > DEVICES_MAX or not 0 <= processes <= PROCESSES_MAX:
        message = f"it counts {devices} devices and {processes} processes"
        raise unfit(message)
    return layout


def process_count(file: RegionFile, layout: Layout) -> int:
    """Return how many slots have been used, as the region says."""
    return file.int32(layout.process_count)


def _of_size_and_version(file: RegionFile) -> Layout:
    for layout in (V0_PLAIN, V0):
        if file.size in {layout.size, layout.size + 1}:
            return layout
    version = (file.int32(4), file.int32(8))
    if version == V1_2.version:
        return V1_2
    if version == V1_1.version:
        return _of_version_1_1(file)
    # What stands here in the oldest layouts is a flag and half of a pid.
    if version[0] in {0, 1}:
        for layout in (V0, V0_PLAIN):
            if file.size > layout.size and _fits(file, layout):
                return layout
    message = f"it has {file.size} bytes and says version {version[0]}.{version[1]}"
    raise unfit(message)


def _of_version_1_1(file: RegionFile) -> Layout:
    if file.size in {V1_1_LONG.size, V1_1_LONG.size + 1}:
        return V1_1_LONG
    if file.size > V1_1_LONG.size and file.read(V1_1_LONG.uuids, 4) in _KINDS:
        return V1_1_LONG
    return V1_1


def _fits(file: RegionFile, layout: Layout) -> bool:
    """Tell whether a longer file than *layout* needs has this layout all the same."""
    known = file.read(layout.uuids, 4) in {_EMPTY, *_KINDS}
    return known and 0 < process_count(file, layout) <= PROCESSES_MAX


def _of_slots(file: RegionFile) -> Layout:
    """Return the classic layout 1.1, unless a slot says that it has a sequence number in front."""
    for number in range(max(0, min(PROCESSES_MAX, process_count(file, V1_1)))):
        start = V1_1.slots + number * V1_1.slot.size
        if file.int32(start) == 0:
            continue
        if file.int32(start + V1_1.slot.status) in STATUSES:
            return V1_1
        if file.int32(start + V1_1_SEQLOCK.slot.status) in STATUSES:
            return V1_1_SEQLOCK
    # No slot that counts, and the rest is the same.
    return V1_1
