"""Processes that use a region as HAMi-core's do: they map the file and leave their marks in it."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from cdi.region import REGION_SIZE
from tests.patience import DEADLINE_S, eventually

_PROGRAM = """
import mmap, os, sys, time
path, use, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("opens", flush=True)
writes = "reads" not in use
handle = os.open(path, os.O_RDWR if writes else os.O_RDONLY)
if "map" in use:
    access = mmap.ACCESS_WRITE if writes else mmap.ACCESS_READ
    mapped = mmap.mmap(handle, size, access=access)
    os.close(handle)
    found = bytes(mapped)
else:
    found = os.pread(handle, size, 0)
if writes:
    # Where the library has its first and its last words.
    for place in (0, 2008920):
        if "map" in use:
            mapped[place : place + 4] = b"used"
        else:
            os.pwrite(handle, b"used", place)
if "fork" in use and os.fork():
    os._exit(0)
print(os.getpid(), "marks" if any(found) else "zeros", flush=True)
time.sleep(600)
"""


class Use(StrEnum):
    """How a process uses the region."""

    MAPS = "maps"
    """Without a descriptor, as a process that has forked away its descriptors."""
    OPENS = "opens"
    FORKED = "forked and maps"
    """Its parent opened the region and has ended."""
    READS = "reads"
    READS_MAPPED = "reads maps"


class RegionUser:
    """One such process; `found` waits until it uses the region."""

    def __init__(self, path: Path, use: Use = Use.MAPS, *, within: Sequence[str] = ()) -> None:
        words = [*within, sys.executable, "-E", "-S", "-c", _PROGRAM]
        self._child = subprocess.Popen(  # noqa: S603 - our own program
            [*words, str(path), use, str(REGION_SIZE)], stdout=subprocess.PIPE, bufsize=0
        )
        self._pid = 0
        self._found = ""
        assert self._line() == "opens"

    def found(self) -> str:
        """Return what was in the region when it was opened: `zeros` or `marks`."""
        if not self._found:
            pid, self._found = self._line().split()
            self._pid = int(pid)
        return self._found

    def signal(self) -> None:
        """Send it SIGKILL, without waiting for what comes of that."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone; done twice, it is gone already."""
        self.signal()
        pid, self._pid = self._pid, 0
        self._child.kill()
        self._child.wait()
        eventually(lambda: pid == 0 or _has_ended(pid))

    def close(self) -> None:
        """End all that there still is of it."""
        self.kill()
        assert self._child.stdout is not None
        self._child.stdout.close()

    def _line(self) -> str:
        stream = self._child.stdout
        assert stream is not None
        readable, _, _ = select.select([stream], [], [], DEADLINE_S)
        assert readable, "it says nothing"
        return bytes(stream.readline()).decode().strip()


def _has_ended(pid: int) -> bool:
    """Tell whether nothing, or a zombie, is left of *pid*."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def using(path: Path, use: Use = Use.MAPS, *, within: Sequence[str] = ()) -> Iterator[RegionUser]:
    """Run a process that uses the region at *path*, until it is killed or the block ends."""
    user = RegionUser(path, use, within=within)
    try:
        user.found()
        yield user
    finally:
        user.close()


def leave_marks(path: Path) -> None:
    """Leave what a killed process leaves in the region."""
    with using(path) as user:
        user.kill()


def is_empty(path: Path) -> bool:
    """Tell whether the region holds nothing, without opening it."""
    found = path.stat()
    return found.st_blocks == 0 and found.st_size == REGION_SIZE
