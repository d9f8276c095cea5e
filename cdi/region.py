"""The file through which the processes of one container share HAMi-core's bookkeeping.

The library ends the process when it cannot open its region and the user's uid is unknown before,
so the file is made here: of the right size, writable by all, in a directory that is not. Only
the file is mounted. Deleting it while a process uses it would double the limit.
"""

import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Final

from cdi.durable import Whole, make_directory, make_sparse, open_existing, truncate
from cdi.errors import StoreError, store_errors
from cdi.faults import FaultPoint

REGION_NAME: Final = "region.cache"
REGION_SIZE: Final = 2008952 + 1
"""The structure of HAMi-core 1.1 and 1.2 and the byte that the library writes behind it."""

_POINTS: Final = Whole(FaultPoint.REGION_TEMPORARY_MADE, FaultPoint.REGION_CREATED)
_MODE: Final = 0o666
# A lease that somebody waits for is taken away after fs.lease-break-time: 45 s, 1 s at the least.
LEASE_S: Final = 0.5


def create_region(directory: Path) -> Path:
    """Make the region in *directory*, sparse and zeroed; what is in one is left alone."""
    path = directory / REGION_NAME
    with store_errors(path):
        make_directory(directory, FaultPoint.REGION_DIRECTORY_MADE)
        try:
            found = path.lstat()
        except FileNotFoundError:
            found = None
        if found is None or not stat.S_ISREG(found.st_mode):
            make_sparse(path, REGION_SIZE, _POINTS, mode=_MODE)
        elif found.st_size != REGION_SIZE:
            _resize(path)
    return path


def _resize(path: Path) -> None:
    """Mend what a reset that was killed, or a container, has made of the region it has mounted."""
    handle = open_existing(path, os.O_RDWR)
    try:
        truncate(handle, REGION_SIZE, FaultPoint.REGION_RESET)
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
        if found.st_size == REGION_SIZE and found.st_blocks == 0:
            return Reset.FRESH
        # Read-only first: whoever waits for writers to close the file must not see this look.
        with _leased(path, os.O_RDONLY):
            pass
        began_s = time.monotonic()
        with _leased(path, os.O_RDWR) as handle:
            if time.monotonic() - began_s > lease_s:
                return Reset.IN_USE
            truncate(handle, 0, FaultPoint.REGION_EMPTIED)
            truncate(handle, REGION_SIZE, FaultPoint.REGION_RESET)
    except BlockingIOError:
        return Reset.IN_USE
    except OSError as error:
        raise StoreError(path, error) from error
    return Reset.DONE


@contextmanager
def _leased(path: Path, access: int) -> Iterator[int]:
    """Open *path* and be the only one who has it open; BlockingIOError when that is not so."""
    # Without O_NONBLOCK it would wait here for another holder of a lease.
    handle = open_existing(path, access | os.O_NONBLOCK)
    try:
        # Whoever waits for the lease signals its holder; SIGIO, the default, would end it.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield handle
    finally:
        # Which gives the lease back.
        os.close(handle)
