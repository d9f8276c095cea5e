"""HAMi-core's usage region of each claim: one file on storage that cannot grow.

The library maps a file that the processes of a container share and write. A container must be
able to write that file, so it could also fill whatever it lies on: each claim gets a tmpfs just
large enough, mounted by the agent, with the file made beforehand in a directory only root writes.
Where the agent may not mount, the file lies in a plain directory, which is said once.
"""

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import structlog

from cdi.region import create_region
from dra.faults import FaultPoint, reach

log = structlog.get_logger(__name__)

# From Linux' mount.h; Python has no binding for mount(2).
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MNT_DETACH = 2
# HAMi-core's region is just under 2 MiB; tmpfs counts the directory as an inode too.
_OPTIONS = b"size=2304k,nr_inodes=8,mode=0755"


class RegionStore:
    """Regions below *directory*, which the host sees as *host_directory*."""

    def __init__(self, directory: Path, host_directory: str, *, may_mount: bool = True) -> None:
        self._directory = directory
        self._host_directory = host_directory
        self._may_mount = may_mount

    @property
    def bounded(self) -> bool:
        """Tell whether new regions lie on storage of their own."""
        return self._may_mount

    def host_path(self, claim_uid: str) -> str:
        """Return where the host finds the region of *claim_uid*."""
        return f"{self._host_directory}/{claim_uid}/region.cache"

    def ensure(self, claim_uid: str) -> None:
        """Make the region unless it is there: running processes keep the one they use."""
        directory = self._directory / claim_uid
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with self._alone():
            if self._may_mount and not directory.is_mount():
                self._mount(directory)
            reach(FaultPoint.REGION_MOUNTED)
            create_region(directory)
        reach(FaultPoint.REGION_CREATED)

    def remove(self, claim_uid: str) -> None:
        """Remove the region of *claim_uid*; it need not be there."""
        directory = self._directory / claim_uid
        if directory.is_dir():
            with self._alone():
                _remove(directory)
        reach(FaultPoint.REGION_REMOVED)

    def claim_uids(self) -> set[str]:
        """Return the claims that have a region."""
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

    def _mount(self, directory: Path) -> None:
        try:
            _mount_tmpfs(directory)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                raise
            self._may_mount = False
            log.warning(
                "region storage left unbounded",
                reason=error.strerror,
                remedy="let the agent mount (CAP_SYS_ADMIN) so that no container fills the disk",
            )


def _remove(directory: Path) -> None:
    while directory.is_mount():
        _unmount(directory)
    if directory.is_dir():
        for leftover in directory.iterdir():
            leftover.unlink()
        directory.rmdir()


def _mount_tmpfs(directory: Path) -> None:
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    if _libc().mount(b"gpuslice", os.fsencode(directory), b"tmpfs", flags, _OPTIONS) != 0:
        _raise_errno(directory)


def _unmount(directory: Path) -> None:
    # Detached: a process that still maps the region keeps it until it ends.
    if _libc().umount2(os.fsencode(directory), _MNT_DETACH) != 0:
        _raise_errno(directory)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _raise_errno(directory: Path) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), str(directory))
