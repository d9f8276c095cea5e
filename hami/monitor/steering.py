"""Stores what feedback has decided, and takes it back.

A container that waits goes on waiting until somebody stores otherwise, and its core limit stays
lifted: so everything is taken back when the monitor stops, and when it starts, as the one before
may have been killed. A region that cannot be written is tried again with the next look.
"""

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from hami.monitor.feedback import Order, Task, decide
from hami.monitor.places import Place
from hami.monitor.regions.fields import feedback_fields, release
from hami.monitor.regions.file import UnfitError
from hami.monitor.regions.model import Region, Unreadable

log = structlog.get_logger(__name__)


class Steering:
    """Gives feedback to regions; `waiting` and `without_effect` may be called from any thread."""

    def __init__(self, *, lately_s: float) -> None:
        """Prepare; a launch not longer than *lately_s* ago is a recent one."""
        self._lately_s = lately_s
        self._lock = threading.Lock()
        self._storing = threading.Lock()
        self._closed = False
        self._waiting: frozenset[Path] = frozenset()
        self._without_effect: frozenset[Path] = frozenset()
        self._said: set[Path] = set()

    def waiting(self) -> frozenset[Path]:
        """Return the regions whose launches wait."""
        with self._lock:
            return self._waiting

    def without_effect(self) -> frozenset[Path]:
        """Return the regions that should wait and cannot, for want of a core limit."""
        with self._lock:
            return self._without_effect

    def steer(
        self,
        places: Iterable[Place],
        regions: Mapping[Path, Region | Unreadable],
        *,
        now_s: float,
    ) -> None:
        """Decide about all *regions* together and store it; *now_s* is Unix time."""
        readable = {
            place: region
            for place in places
            if isinstance(region := regions.get(place.path), Region)
        }
        tasks = {place: self._task(place, region, now_s) for place, region in readable.items()}
        with self._storing:
            if not self._closed:
                self._store(tasks, readable)

    def let_go(self) -> None:
        """Release those that this monitor has told to wait, as it cannot look after them."""
        waiting = self.waiting()
        self.release_all(Place(path=path, pod_uids=frozenset()) for path in sorted(waiting))

    def close(self) -> None:
        """Store nothing any more but what releases."""
        with self._storing:
            self._closed = True

    def _store(self, tasks: Mapping[Place, Task], regions: Mapping[Place, Region]) -> None:
        waiting, without_effect = set(), set()
        for place, order in decide(tasks).items():
            task = tasks[place]
            if order.should_wait and task.alive and not task.limited:
                without_effect.add(place.path)
            if _stored(place.path, regions[place], order) and order.recent_kernel < 0:
                waiting.add(place.path)
        self._tell(frozenset(waiting), frozenset(without_effect))

    def release_all(self, places: Iterable[Place]) -> None:
        """Let everybody go on, with the limits that hold without a monitor."""
        for place in places:
            try:
                if release(place.path):
                    log.info("launches released", region=str(place.path))
            except OSError as error:
                log.warning("region not released", region=str(place.path), reason=str(error))
        with self._lock:
            self._waiting = self._without_effect = frozenset()

    def _task(self, place: Place, region: Region, now_s: float) -> Task:
        last_s = region.last_kernel_s
        limited = any(each.is_core_limited for each in region.devices)
        return Task(
            devices=frozenset(each.uuid for each in region.devices),
            priority=region.priority if place.priority is None else place.priority,
            recent_kernel=region.recent_kernel,
            limited=limited and not place.never_limits,
            alive=bool(region.processes),
            launched_lately=last_s is not None and now_s - last_s <= self._lately_s,
        )

    def _tell(self, waiting: frozenset[Path], without_effect: frozenset[Path]) -> None:
        for path in waiting - self._waiting:
            log.info("launches held back", region=str(path), reason="higher priority is active")
        for path in self._waiting - waiting:
            log.info("launches released", region=str(path))
        for path in without_effect - self._said:
            log.warning(
                "priority has no effect",
                region=str(path),
                reason="a container without a core limit of 1 to 99 percent cannot be held back",
            )
        # Said once, until the region is gone or waits no more.
        self._said = (self._said | without_effect) & _existing(self._said | without_effect)
        with self._lock:
            self._waiting, self._without_effect = waiting, without_effect


def _existing(paths: Iterable[Path]) -> set[Path]:
    return {path for path in paths if path.exists()}


def _stored(path: Path, region: Region, order: Order) -> bool:
    """Store what differs from what was read; tell whether the region now says what it should."""
    if (region.recent_kernel, region.utilization_switch) == (
        order.recent_kernel,
        order.utilization_switch,
    ):
        return True
    try:
        with feedback_fields(path) as fields:
            if fields.recent_kernel != order.recent_kernel:
                fields.set_recent_kernel(order.recent_kernel)
            if fields.utilization_switch != order.utilization_switch:
                fields.set_utilization_switch(order.utilization_switch)
    except (UnfitError, OSError) as error:
        # It may be gone by now, or in reset; the next look finds what it has become.
        log.debug("region not steered", region=str(path), reason=str(error))
        return False
    return True
