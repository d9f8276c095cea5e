"""Finds who uses more of a GPU than was granted, or uses one without having been given it.

HAMi-core's limits are kept by the programs themselves: memory from pools and arrays is not counted,
and a program can leave the library out. The driver sees all of it, by process; where a pod holds
one share of a GPU, the memory of all its processes there is that share's.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hami.monitor.holders import HeldDevice, Holder, Mode
from hami.monitor.regions.model import Region, RegionDevice, Unreadable
from hami.monitor.sources import GpuOwner, GpuWorker, Look, Snapshot

MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How much memory of a share is used."""

    holder: Holder
    device: HeldDevice
    granted_bytes: int
    used_bytes: int

    @property
    def above_bytes(self) -> int:
        """Return how much of it was not granted."""
        return max(0, self.used_bytes - self.granted_bytes)


def device_of(region: Region | Unreadable | None, uuid: str) -> RegionDevice | None:
    """Return the device of *region* with this UUID."""
    if not isinstance(region, Region):
        return None
    return next((each for each in region.devices if each.uuid == uuid), None)


def uses(snapshot: Snapshot) -> Iterator[Use]:
    """Yield each share of a running container of which grant and use are known."""
    by_driver = _by_driver(snapshot.workers)
    counted = Counter(
        (look.holder.pod.uid, device.parent_uuid)
        for look in snapshot.looks
        for device in look.holder.devices
    )
    for look in snapshot.looks:
        for device in look.holder.devices:
            if not look.holder.running or device.mode is not Mode.SHARE or not device.memory_mib:
                continue
            place = (look.holder.pod.uid, device.parent_uuid)
            seen = by_driver.get(place) if counted[place] == 1 else None
            known = [each for each in (_by_library(look, device), seen) if each is not None]
            if known:
                yield Use(
                    holder=look.holder,
                    device=device,
                    granted_bytes=device.memory_mib * MIB,
                    used_bytes=max(known),
                )


def strays(snapshot: Snapshot) -> tuple[GpuWorker, ...]:
    """Return the processes on GPUs that nobody has given them."""
    return tuple(each for each in snapshot.workers if each.owner is GpuOwner.STRAY)


def _by_library(look: Look, device: HeldDevice) -> int | None:
    found = device_of(look.region, device.uuid)
    if found is None or not isinstance(look.region, Region):
        return None
    return look.region.used_bytes(found.index)


def _by_driver(workers: Iterable[GpuWorker]) -> dict[tuple[str, str], int]:
    """Return the memory of each pod's processes by GPU, where it is known of at least one."""
    found: Counter[tuple[str, str]] = Counter()
    for each in workers:
        if each.pod_uid and each.memory_bytes is not None:
            found[each.pod_uid, each.gpu_uuid] += each.memory_bytes
    return dict(found)
