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
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)

    def close(self) -> None:
        """Give the file back; nobody may hold the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock against threads and processes; `TimeoutError` when it is not free."""
        deadline = time.monotonic() + self._wait_s
        if not self._mutex.acquire(timeout=self._wait_s):
            raise self._busy()
        try:
            self._lock_file(deadline)
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

    def _lock_file(self, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise self._busy() from error
            else:
                return
            time.sleep(_POLL_S)

    def _busy(self) -> TimeoutError:
        return TimeoutError(f"{self._path}: held for {self._wait_s:g} s by another call")
