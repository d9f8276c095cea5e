"""Resets the usage region of a claim as soon as no process uses it.

HAMi-core never forgets a process that was killed alone: its usage stays booked, a semaphore that
it held is waited for, a sequence number that it left odd is read again and again. Whatever comes
next in the claim, the container that kubelet starts again first of all, shall find an empty
region. That nobody uses it is the kernel's word (`cdi.region.reset_region`), so it does no harm to
look too often: when a process lets go of the region, when pods of the node change, when claims
are restored and when the agent starts.
"""

import contextlib
import math
import os
import select
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from cdi.errors import StoreError
from cdi.region import Reset, reset_region
from cdi.regionstore import RegionStore
from dra.regionwatch import RegionWatch
from gpu.refusal import Refusal

log = structlog.get_logger(__name__)

# A close is reported before it has happened, and the processes of a container end one by one.
_AGAIN_S = tuple(0.001 * 2**number for number in range(9))
# A reset closes the file as well. Where the storage counts blocks in an empty file, it would be
# reset again and again for that.
_PACE_S = 0.05
# Times as long as it has worked: a container may open and close its region all the time.
_REST = 4
_REST_MAX_S = 0.2


@dataclass(slots=True)
class _Region:
    """When one region is to be looked at."""

    due_s: float = math.inf
    tries_left: int = 0
    not_before_s: float = 0.0

    def look(self, *, tries: int) -> None:
        """Have it looked at soon, and up to *tries* times while it is in use."""
        self.due_s = self.not_before_s
        self.tries_left = max(self.tries_left, tries)


class RegionResets:
    """Looks at the regions of *regions* in a thread of its own."""

    def __init__(self, regions: RegionStore) -> None:
        self._store = regions
        self._watch = RegionWatch()
        self._regions: dict[str, _Region] = {}
        self._problem: Refusal | None = None
        self._has_complained = False
        # Readable from the beginning: the first look is at what an earlier process has left.
        self._all = os.fdopen(os.eventfd(1, os.EFD_CLOEXEC | os.EFD_NONBLOCK), "r+b", buffering=0)

    def set(self) -> None:
        """Have all regions looked at; returns at once."""
        # There is nobody any more to look.
        with contextlib.suppress(ValueError):
            self._all.write((1).to_bytes(8, "little"))

    def run(self, stopping: threading.Event) -> None:
        """Look whenever there is reason to; ends when *stopping* is set and `set` is called."""
        poller = select.poll()
        poller.register(self._all, select.POLLIN)
        watch = self._watch.fileno()
        if watch is not None:
            poller.register(watch, select.POLLIN)
        while not stopping.is_set():
            try:
                poller.poll(self._wait_ms())
                began_s = time.thread_time()
                self._step()
                stopping.wait(min(_REST_MAX_S, _REST * (time.thread_time() - began_s)))
            except Exception:  # the top of the thread's loop
                log.exception("regions not looked at")
                stopping.wait(1.0)

    def close(self) -> None:
        """Let go of everything; after `run` has ended."""
        self._all.close()
        self._watch.close()

    def problem(self) -> Refusal | None:
        """Return why regions are not reset, if so."""
        return self._problem

    def _wait_ms(self) -> int | None:
        due_s = min((each.due_s for each in self._regions.values()), default=math.inf)
        if due_s == math.inf:
            return None
        return math.ceil(max(0.0, due_s - time.monotonic()) * 1000)

    def _step(self) -> None:
        if self._all.read(8):
            self._find()
        for uid in self._watch.let_go():
            self._regions.setdefault(uid, _Region()).look(tries=len(_AGAIN_S))
        for uid, region in self._due():
            self._reset(uid, region)

    def _find(self) -> None:
        """Take up new regions, drop those that are gone, and have each looked at."""
        self._problem = None
        paths = {uid: self._store.path(uid) for uid in self._store.owners()}
        for uid in self._regions.keys() - paths.keys():
            del self._regions[uid]
        for uid in paths:
            self._regions.setdefault(uid, _Region()).look(tries=0)
        for uid in self._watch.follow(paths):
            # Whoever was about to let go of it has not been seen.
            self._regions[uid].look(tries=len(_AGAIN_S))

    def _due(self) -> Iterator[tuple[str, _Region]]:
        now_s = time.monotonic()
        for uid, region in self._regions.items():
            if region.due_s <= now_s:
                region.due_s = math.inf
                yield uid, region

    def _reset(self, uid: str, region: _Region) -> None:
        path = self._store.path(uid)
        try:
            outcome = reset_region(path)
        except StoreError as error:
            # It may be gone, or another one may have been made in its place since.
            if path.exists() and not isinstance(error.__cause__, FileNotFoundError):
                self._cannot(error)
            return
        now_s = time.monotonic()
        if outcome is Reset.IN_USE and region.tries_left:
            region.due_s = now_s + _AGAIN_S[-region.tries_left]
            region.tries_left -= 1
            return
        region.tries_left = 0
        if outcome is Reset.DONE:
            region.not_before_s = now_s + _PACE_S
            log.info("region reset", claim_uid=uid)

    def _cannot(self, error: StoreError) -> None:
        if not self._has_complained:
            self._has_complained = True
            log.warning("region not reset", reason=str(error))
        self._problem = Refusal(
            code="RegionsNotReset",
            field="regions",
            value=str(error.path),
            limit=str(error),
            remedy="let the agent take leases (CAP_LEASE, fs.leases-enable=1) on storage with them",
        )
