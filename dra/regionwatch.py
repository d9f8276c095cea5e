"""Tells which regions a process has let go of, as soon as it has.

Linux' inotify reports the last close of a file that was open for writing: a process that maps the
file keeps it open, so its end is reported too, long before kubelet knows of it. It is a help and
no more: where there are no watches left, others still say when to look.
"""

import contextlib
import errno
from collections.abc import Mapping
from pathlib import Path

import structlog
from inotify_simple import INotify, flags

log = structlog.get_logger(__name__)

_MASK = flags.CLOSE_WRITE | flags.DONT_FOLLOW
_EXHAUSTED = (errno.EMFILE, errno.ENOSPC)


class RegionWatch:
    """Watches files by claim UID; used by one thread."""

    def __init__(self) -> None:
        self._uids: dict[int, str] = {}
        self._has_complained = False
        self._inotify: INotify | None = None
        try:
            self._inotify = INotify()
        except OSError as error:
            self._complain(error)

    def fileno(self) -> int | None:
        """Return what becomes readable when `let_go` has something to say."""
        return self._inotify.fileno() if self._inotify else None

    def follow(self, files: Mapping[str, Path]) -> set[str]:
        """Watch *files* and no others; return the claims whose file was not watched before."""
        if self._inotify is None:
            return set()
        before, self._uids = self._uids, {}
        for uid, path in files.items():
            # The same number again for a file that is watched already.
            watch = self._add(self._inotify, path)
            if watch is not None:
                self._uids[watch] = uid
        for watch in before.keys() - self._uids.keys():
            # The kernel has dropped it together with the file.
            with contextlib.suppress(OSError):
                self._inotify.rm_watch(watch)
        return {uid for watch, uid in self._uids.items() if watch not in before}

    def let_go(self) -> set[str]:
        """Return the claims whose file a writer has closed since the last call."""
        found: set[str] = set()
        for event in self._inotify.read(timeout=0) if self._inotify else ():
            if event.mask & flags.Q_OVERFLOW:
                found |= set(self._uids.values())
            elif event.mask & flags.IGNORED:
                self._uids.pop(event.wd, None)
            elif event.wd in self._uids:
                found.add(self._uids[event.wd])
        return found

    def close(self) -> None:
        """Watch nothing any more."""
        if self._inotify is not None:
            self._inotify.close()

    def _add(self, inotify: INotify, path: Path) -> int | None:
        try:
            return int(inotify.add_watch(path, _MASK))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain(error)
            return None

    def _complain(self, error: OSError) -> None:
        if self._has_complained:
            return
        self._has_complained = True
        remedy = "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances"
        log.warning(
            "regions not watched",
            reason=error.strerror,
            effect="they are reset when pods change, and once a minute",
            remedy=remedy if error.errno in _EXHAUSTED else None,
        )
