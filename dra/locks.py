"""One lock per claim, so that calls for one claim follow each other and others do not wait.

Kubelet gives up a call after 45 seconds and may call again, or call unprepare, while the first
call still runs. A waiting call therefore ends before that, with an error that kubelet retries.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gpu.refusal import Refusal, RefusedError

WAIT_S = 30.0


class ClaimLocks:
    """Locks by claim UID that exist only while somebody holds or wants them."""

    def __init__(self, *, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._mutex = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, uid: str) -> Iterator[None]:
        """Hold the lock of *uid*; raise `RefusedError` when it is not free in time."""
        with self._mutex:
            lock, users = self._locks.get(uid, (threading.Lock(), 0))
            self._locks[uid] = (lock, users + 1)
        try:
            if not lock.acquire(timeout=self._wait_s):
                raise RefusedError(
                    Refusal(
                        code="ClaimBusy",
                        field="claim.uid",
                        value=uid,
                        limit=f"another call for it has run for {self._wait_s:g} s",
                        remedy="kubelet tries again",
                    )
                )
            try:
                yield
            finally:
                lock.release()
        finally:
            self._leave(uid)

    def _leave(self, uid: str) -> None:
        with self._mutex:
            lock, users = self._locks[uid]
            if users == 1:
                del self._locks[uid]
            else:
                self._locks[uid] = (lock, users - 1)
