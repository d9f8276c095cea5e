"""Reads of a file that strangers write, cut and replace at any moment.

Reads are calls of the kernel and no loads from a mapping: a container may cut its region while it
is looked at, and a load behind the end of a mapped file ends the process (SIGBUS), where a read
comes back short. Neither makes pages that the container has not made, as a load does on tmpfs: a
region that nobody has used stays one of which the kernel says so. Nothing is kept open, because a
region is reset when nobody has it open.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hami.monitor.regions.model import Trouble


class UnfitError(Exception):
    """The file says nothing that can be used."""

    def __init__(self, trouble: Trouble, reason: str) -> None:
        super().__init__(trouble, reason)
        self.trouble = trouble
        self.reason = reason


def unfit(reason: str) -> UnfitError:
    """Return the error for a file that is no region."""
    return UnfitError(Trouble.UNREADABLE, reason)


class RegionFile:
    """An open region."""

    def __init__(self, descriptor: int, status: os.stat_result) -> None:
        self.descriptor = descriptor
        self.size = status.st_size
        self.holds_nothing = status.st_blocks == 0

    def read(self, offset: int, size: int) -> bytes:
        """Return *size* bytes from *offset*; `UnfitError` if there are fewer."""
        found = os.pread(self.descriptor, size, offset)
        if len(found) < size:
            message = f"it ends at {offset + len(found)} bytes"
            raise unfit(message)
        return found

    def int32(self, offset: int) -> int:
        """Return the signed number of four bytes at *offset*."""
        return int.from_bytes(self.read(offset, 4), "little", signed=True)

    def uint64(self, offset: int) -> int:
        """Return the number of eight bytes at *offset*."""
        return int.from_bytes(self.read(offset, 8), "little")


@contextmanager
def opened(path: Path) -> Iterator[RegionFile]:
    """Open *path* to read; `UnfitError` if it is no file or somebody resets it, else OSError."""
    try:
        # Without O_NONBLOCK it would wait for whoever resets it, and for the writer of a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except BlockingIOError as error:
        raise UnfitError(Trouble.BUSY, "it is being reset") from error
    except FileNotFoundError as error:
        raise UnfitError(Trouble.ABSENT, "there is no such file") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise unfit("it is no ordinary file")
        yield RegionFile(descriptor, status)
    finally:
        os.close(descriptor)
