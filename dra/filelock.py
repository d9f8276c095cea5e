"""A lock that threads of this process and other processes respect, given up after a while.

`flock` belongs to the open file, so threads need a lock of their own. It cannot wait with a limit
either, hence the short sleeps; they happen only while a second instance holds the lock.
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdi.durable import open_lasting
from cdi.faults import FaultPoint

_POLL_S = 0.002


class FileLock:
    """A lock on one file, which is made by `open` and never removed."""

    def __init__(self, path: Path, *, wait_s: float) -> None:
        self._path = path
        self._wait_s = wait_s
        self._mutex = threading.Lock()
        self._descriptor = -1

    def open(self) -> None:
        """Make the file unless it is there; raises `OSError`."""
        self._descriptor = open_lasting(self._path, FaultPoint.LOCK_FILE_MADE)

    def close(self) -> None:
        """Give the file back; nobody may hold the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    @contextmanager
    def hold(self, *, wait_s: float | None = None) -> Iterator[None]:
        """Hold the lock against threads and processes; `TimeoutError` when it is not free.

        *wait_s* is how long to wait instead of what the lock was made with.
        """
        wait_s = self._wait_s if wait_s is None else wait_s
        deadline = time.monotonic() + wait_s
        if not self._mutex.acquire(timeout=wait_s):
            raise self._busy(wait_s)
        try:
            self._lock_file(deadline, wait_s)
            try:
                yield
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    @contextmanager
    def hold_here(self) -> Iterator[None]:
        """Hold the lock against threads of this process only."""
        with self._mutex:
            yield

    def _lock_file(self, deadline: float, wait_s: float) -> None:
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise self._busy(wait_s) from error
            else:
                return
            time.sleep(_POLL_S)

    def _busy(self, wait_s: float) -> TimeoutError:
        return TimeoutError(f"{self._path}: held for {wait_s:g} s by another call")
