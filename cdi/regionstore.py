"""HAMi-core's usage regions, one for each owner: a file on storage that cannot grow.

The library maps a file that the processes of a container share and write. A container must be
able to write that file, so it could also fill whatever it lies on: each owner gets a tmpfs just
large enough, mounted by the agent, with the file made beforehand in a directory only root writes.
Where the agent may not mount, or the host would not see it, the file lies in a plain directory,
which is said once. An owner is a claim by its UID, or a container that was given GPUs by a device
plugin.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from cdi.durable import (
    TEMPORARY_SUFFIX,
    make_directory,
    make_open_directory,
    mount_tmpfs,
    remove,
    remove_directory,
    unmount,
)
from cdi.errors import StoreError
from cdi.faults import FaultPoint
from cdi.lease import leased
from cdi.propagation import is_seen_by_host
from cdi.region import REGION_NAME, create_region
from gpu.refusal import Refusal, RefusedError

log = structlog.get_logger(__name__)

# HAMi-core's region is just under 2 MiB; tmpfs counts directories as inodes too.
_OPTIONS = b"size=2304k,nr_inodes=8,mode=0755"
_LOCK_NAME = "lock"
_OWN_NAMES = frozenset({REGION_NAME, f".{REGION_NAME}{TEMPORARY_SUFFIX}"})


class RegionStore:
    """Regions below *directory*, which the host sees as *host_directory*."""

    def __init__(self, directory: Path, host_directory: str, *, may_mount: bool = True) -> None:
        self._directory = directory
        self._host_directory = host_directory
        self._may_mount = may_mount
        self._is_seen: bool | None = None

    @property
    def bounded(self) -> bool:
        """Tell whether new regions lie on storage of their own."""
        return self._may_mount

    def host_path(self, owner: str) -> str:
        """Return where the host finds the region of *owner*."""
        return f"{self._host_directory}/{owner}/{REGION_NAME}"

    def lock_host_path(self, owner: str) -> str:
        """Return where the host finds the directory for locks of *owner*."""
        return f"{self._host_directory}/{owner}/{_LOCK_NAME}"

    def path(self, owner: str) -> Path:
        """Return where the agent finds the region of *owner*, which need not be there."""
        return self._directory / owner / REGION_NAME

    def ensure(self, owner: str, *, size: int | None = None, with_lock: bool = False) -> None:
        """Make the region unless it is there: running processes keep the one they use.

        Without a *size* in bytes it gets that of most layouts. *with_lock* makes a directory
        beside it in which everybody may write, for a library that needs one; `RefusedError` where
        that could fill the node's disk.
        """
        directory = self._directory / owner
        make_directory(directory, FaultPoint.REGION_DIRECTORY_MADE)
        with self._alone():
            if self._may_mount and not directory.is_mount():
                self._mount(directory)
            create_region(directory, size=size)
            if with_lock:
                _make_lock(directory)

    def remove(self, owner: str) -> None:
        """Remove the region of *owner*; it need not be there."""
        directory = self._directory / owner
        if directory.is_dir():
            with self._alone():
                _remove(directory)

    def remove_unused(self, owner: str) -> bool:
        """Remove the region of *owner* unless a process uses it; tell whether it is gone.

        One beside which there is what this class does not make is somebody else's, and stays.
        StoreError if the kernel does not say whether it is used.
        """
        path = self.path(owner)
        if not _is_ours(path.parent):
            return False
        try:
            # Whoever wants to open it now waits, and finds none.
            with leased(path, os.O_RDONLY):
                self.remove(owner)
        except BlockingIOError:
            return False
        except FileNotFoundError:
            self.remove(owner)
        except OSError as error:
            raise StoreError(path, error) from error
        return True

    def owners(self) -> set[str]:
        """Return whose regions there are."""
        if not self._directory.is_dir():
            return set()
        return {path.name for path in self._directory.iterdir() if path.is_dir()}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others out, a second instance too: its mount would hide the region made here."""
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _host_sees(self) -> bool:
        """Tell whether mounts are seen: asked once, as how a container was begun stays."""
        if self._is_seen is None:
            self._is_seen = is_seen_by_host(self._directory)
        return self._is_seen

    def _mount(self, directory: Path) -> None:
        try:
            if self._host_sees():
                mount_tmpfs(directory, _OPTIONS, FaultPoint.REGION_MOUNTED)
                return
            reason, remedy = "the host would not see the mount", "mountPropagation: Bidirectional"
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                raise
            reason, remedy = str(error.strerror), "CAP_SYS_ADMIN"
        self._may_mount = False
        log.warning(
            "region storage left unbounded",
            reason=reason,
            remedy=f"let the agent mount ({remedy}) so that no container fills the disk",
        )


def _is_ours(directory: Path) -> bool:
    """Tell whether a directory of regions holds nothing else."""
    if directory.is_mount() or not directory.is_dir():
        return True
    return {path.name for path in directory.iterdir()} <= _OWN_NAMES


def _make_lock(directory: Path) -> None:
    if not directory.is_mount():
        raise RefusedError(
            Refusal(
                code="LockDirectoryUnbounded",
                field="library",
                value=str(directory),
                limit="this library needs a writable directory, which could fill the node's disk",
                remedy="let the agent mount (CAP_SYS_ADMIN), or take HAMi-core of v2.8.1 or newer",
            )
        )
    make_open_directory(directory / _LOCK_NAME, FaultPoint.LOCK_DIRECTORY_MADE)


def _remove(directory: Path) -> None:
    while directory.is_mount():
        # Detached: a process that still maps the region keeps it until it ends.
        unmount(directory, FaultPoint.REGION_UNMOUNTED)
    if directory.is_dir():
        for leftover in directory.iterdir():
            remove(leftover, FaultPoint.REGION_FILE_REMOVED)
        remove_directory(directory, FaultPoint.REGION_REMOVED)
