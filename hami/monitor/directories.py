"""Removes what is left of containers whose pods are gone.

A directory of the device plugin's goes when its pod is no longer on the node, some time after it
was last changed, because a pod that kubelet has just admitted may not be known here yet. It stays
while its pod exists, also one that has ended, as a container that is started again needs its
region; while a process uses the region, by the kernel's word; and for as long as it is not known
which pods there are. Names that are not ours are never touched, no link is followed, and what a
container may have put beside its region (it can, with HAMi's own layout) goes with it.
"""

import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import structlog

from cdi.durable import remove, remove_directory, unmount
from cdi.errors import StoreError
from cdi.faults import FaultPoint
from cdi.region import Reset, reset_region
from hami.monitor.places import Owner, PluginRegions, directory_of
from hami.monitor.pods import NodePod
from hami.monitor.processes import HostProcesses
from hami.monitor.regions.model import Region
from hami.monitor.regions.reading import read_region

log = structlog.get_logger(__name__)

RESYNC_S: Final = 300.0
_DEPTH_MAX: Final = 8


class StaleDirectories:
    """Removes directories of gone pods below *directory*; for one thread."""

    def __init__(
        self,
        directory: Path | None,
        processes: HostProcesses,
        *,
        resync_s: float = RESYNC_S,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Prepare; a directory goes *resync_s* after its last change at the earliest."""
        self._regions = PluginRegions(directory)
        self._processes = processes
        self._resync_s = resync_s
        self._now_s = now_s
        self._said: set[Owner] = set()

    def sweep(self, pods: Iterable[NodePod] | None) -> None:
        """Remove what no pod of *pods* needs; nothing while they are not known."""
        directory = self._regions.directory
        if pods is None or directory is None:
            return
        known = {pod.uid for pod in pods}
        owners = self._regions.owners()
        self._said &= set(owners)
        for owner in owners:
            path = directory / directory_of(owner)
            try:
                if owner.pod_uid not in known and self._is_over(owner, path):
                    _remove(path)
                    log.info("container directory removed", directory=path.name)
            except OSError as error:
                if owner not in self._said:
                    self._said.add(owner)
                    log.warning(
                        "container directory not removed", directory=path.name, reason=str(error)
                    )

    def _is_over(self, owner: Owner, path: Path) -> bool:
        if path.lstat().st_mtime + self._resync_s > self._now_s():
            return False
        region = self._regions.region(owner)
        return region is None or not self._is_used(owner, region)

    def _is_used(self, owner: Owner, region: Path) -> bool:
        try:
            return reset_region(region) is Reset.IN_USE
        except StoreError:
            # Storage without leases; its processes say the same less surely.
            is_alive = self._processes.of_pods(frozenset({owner.pod_uid}))
            found = read_region(region, is_alive=is_alive)
            return isinstance(found, Region) and bool(found.processes)


def _remove(directory: Path) -> None:
    while directory.is_mount():
        unmount(directory, FaultPoint.REGION_UNMOUNTED)
    _empty(directory, _DEPTH_MAX)
    remove_directory(directory, FaultPoint.REGION_REMOVED)


def _empty(directory: Path, depth: int) -> None:
    """Remove all that is in *directory*; what is mounted below it, or is too deep, stays."""
    for leftover in directory.iterdir():
        if stat.S_ISDIR(leftover.lstat().st_mode):
            if depth == 0 or leftover.is_mount():
                continue
            _empty(leftover, depth - 1)
            remove_directory(leftover, FaultPoint.REGION_REMOVED)
        else:
            remove(leftover, FaultPoint.REGION_FILE_REMOVED)
