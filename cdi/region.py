"""The file through which the processes of one container share HAMi-core's bookkeeping.

The library ends the process when it cannot open its region and the user's uid is unknown before,
so the file is made here: of the right size, writable by all, in a directory that is not. Only
the file is mounted. Deleting it while a process uses it would double the limit.
"""

import os
import stat
import time
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Final

from cdi.durable import Whole, make_directory, make_sparse, open_existing, truncate
from cdi.errors import StoreError, store_errors
from cdi.faults import FaultPoint
from cdi.lease import leased

REGION_NAME: Final = "region.cache"


class RegionLayout(StrEnum):
    """How a release of HAMi-core lays its region out; each has its size."""

    V0_PLAIN = "v0-plain"
    V0 = "v0"
    V1_1 = "v1.1"
    V1_1_SEQLOCK = "v1.1-seqlock"
    V1_1_LONG = "v1.1-long"
    V1_2 = "v1.2"

    @property
    def file_size(self) -> int:
        """The structure's, and the byte that the library writes behind it."""
        return _STRUCTURES.get(self, 2008952) + 1


_STRUCTURES: Final = {
    RegionLayout.V0_PLAIN: 804680,
    RegionLayout.V0: 1197896,
    RegionLayout.V1_1_LONG: 2008984,
}
REGION_SIZE: Final = RegionLayout.V1_2.file_size
_SIZES: Final = frozenset(layout.file_size for layout in RegionLayout)

_POINTS: Final = Whole(FaultPoint.REGION_TEMPORARY_MADE, FaultPoint.REGION_CREATED)
_MODE: Final = 0o666
# A lease that somebody waits for is taken away after fs.lease-break-time: 45 s, 1 s at the least.
LEASE_S: Final = 0.5


def create_region(directory: Path, *, size: int | None = None) -> Path:
    """Make the region in *directory*, sparse and zeroed; what is in one is left alone.

    Without a *size* it gets that of most layouts, and one of another layout, to which its library
    has made it grow, keeps its own.
    """
    path = directory / REGION_NAME
    with store_errors(path):
        make_directory(directory, FaultPoint.REGION_DIRECTORY_MADE)
        try:
            found = path.lstat()
        except FileNotFoundError:
            found = None
        if found is None or not stat.S_ISREG(found.st_mode):
            make_sparse(path, size or REGION_SIZE, _POINTS, mode=_MODE)
        elif found.st_size not in (_SIZES if size is None else {size}):
            _resize(path, size or REGION_SIZE)
    return path


def _resize(path: Path, size: int) -> None:
    """Mend what a reset that was killed, or a container, has made of the region it has mounted."""
    handle = open_existing(path, os.O_RDWR)
    try:
        truncate(handle, size, FaultPoint.REGION_RESET)
    finally:
        os.close(handle)


class Reset(Enum):
    """What became of a region that was to be reset."""

    FRESH = auto()
    """It holds nothing: nobody has written to it since it was made or reset."""
    DONE = auto()
    IN_USE = auto()
    """A process has it open or mapped, or somebody else resets it at this moment."""


def reset_region(path: Path, *, lease_s: float = LEASE_S) -> Reset:
    """Zero the region at *path* in place unless a process uses it; StoreError if none can tell.

    Usage of killed processes, and a semaphore that one of them held, otherwise stay for ever. But
    zeros under a running process would take its limits away, so the kernel is asked: it grants a
    write lease only while nobody else has the file open or mapped, in whichever namespace, and
    lets those who want to open it wait until the lease is given back. It ends with its holder.
    A lease that was held for *lease_s* already, by a process that did not run, may be lost.
    """
    try:
        found = path.lstat()
        size = found.st_size if found.st_size in _SIZES else REGION_SIZE
        if found.st_size == size and found.st_blocks == 0:
            return Reset.FRESH
        # Read-only first: whoever waits for writers to close the file must not see this look.
        with leased(path, os.O_RDONLY):
            pass
        began_s = time.monotonic()
        with leased(path, os.O_RDWR) as handle:
            if time.monotonic() - began_s > lease_s:
                return Reset.IN_USE
            truncate(handle, 0, FaultPoint.REGION_EMPTIED)
            truncate(handle, size, FaultPoint.REGION_RESET)
    except BlockingIOError:
        return Reset.IN_USE
    except OSError as error:
        raise StoreError(path, error) from error
    return Reset.DONE
