"""Tells when something comes or goes in kubelet's directory of sockets.

Linux' inotify is a help and no more: where there are no watches left, or the directory itself is
made anew, the wait ends by time.
"""

import os
import select
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from inotify_simple import INotify, flags

log = structlog.get_logger(__name__)

_ABSENT_S: Final = 1.0
"""How often to look for a directory that is not there."""
_MASK = flags.CREATE | flags.DELETE | flags.MOVED_TO | flags.MOVED_FROM | flags.ONLYDIR


class DirectoryWatch:
    """Watches one directory, which need not be there; one thread waits."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._guard, self._is_closed = threading.Lock(), False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._inotify: INotify | None = None
        try:
            self._inotify = INotify()
        except OSError as error:
            log.warning("directory not watched", path=str(directory), reason=error.strerror)

    def wait(self, timeout_s: float) -> None:
        """Return when something came or went, after `wake`, or after *timeout_s*."""
        if not self._follow():
            timeout_s = min(timeout_s, _ABSENT_S)
        waiting = [self._wake] if self._inotify is None else [self._wake, self._inotify.fileno()]
        ready, _, _ = select.select(waiting, [], [], timeout_s)
        if self._wake in ready:
            with suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        if self._inotify is not None and len(ready) > (self._wake in ready):
            self._inotify.read(timeout=0)

    def wake(self) -> None:
        """End the wait, or the next one; may be called from any thread, and after `close`."""
        with self._guard:
            if not self._is_closed:
                os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Watch nothing any more; nobody may wait."""
        with self._guard:
            self._is_closed = True
            os.close(self._wake)
        if self._inotify is not None:
            self._inotify.close()

    def _follow(self) -> bool:
        """Watch the directory that is there now; tell whether there is one."""
        # The kernel drops a watch together with its directory, and keeps one that it has.
        if self._inotify is not None:
            try:
                self._inotify.add_watch(self._directory, _MASK)
            except FileNotFoundError:
                return False
            except OSError as error:
                log.debug("directory not watched", reason=error.strerror)
        return True
