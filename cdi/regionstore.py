"""HAMi-core's usage regions, one for each owner: a file on storage that cannot grow.

The library maps a file that the processes of a container share and write. A container must be
able to write that file, so it could also fill whatever it lies on: each owner gets a tmpfs just
large enough, mounted by the agent, with the file made beforehand in a directory only root writes.
Where the agent may not mount, the file lies in a plain directory, which is said once. An owner is
a claim by its UID, or a container that was given GPUs by a device plugin.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from cdi.durable import make_directory, mount_tmpfs, remove, remove_directory, unmount
from cdi.faults import FaultPoint
from cdi.region import REGION_NAME, create_region

log = structlog.get_logger(__name__)

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

    def host_path(self, owner: str) -> str:
        """Return where the host finds the region of *owner*."""
        return f"{self._host_directory}/{owner}/region.cache"

    def path(self, owner: str) -> Path:
        """Return where the agent finds the region of *owner*, which need not be there."""
        return self._directory / owner / REGION_NAME

    def ensure(self, owner: str) -> None:
        """Make the region unless it is there: running processes keep the one they use."""
        directory = self._directory / owner
        make_directory(directory, FaultPoint.REGION_DIRECTORY_MADE)
        with self._alone():
            if self._may_mount and not directory.is_mount():
                self._mount(directory)
            create_region(directory)

    def remove(self, owner: str) -> None:
        """Remove the region of *owner*; it need not be there."""
        directory = self._directory / owner
        if directory.is_dir():
            with self._alone():
                _remove(directory)

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

    def _mount(self, directory: Path) -> None:
        try:
            mount_tmpfs(directory, _OPTIONS, FaultPoint.REGION_MOUNTED)
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
        # Detached: a process that still maps the region keeps it until it ends.
        unmount(directory, FaultPoint.REGION_UNMOUNTED)
    if directory.is_dir():
        for leftover in directory.iterdir():
            remove(leftover, FaultPoint.REGION_FILE_REMOVED)
        remove_directory(directory, FaultPoint.REGION_REMOVED)
