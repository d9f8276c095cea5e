"""Every change that the node agent makes to the node's files, each at a named point.

A crash can come between any two of these, so none is made elsewhere: the tests go through the
code for it, and kill the agent at every point. All raise `OSError` and leave its meaning to the
caller. Files of the agent appear whole or not at all: the runtime reads its CDI directory
whenever it changes, and a half-written file there would break every container start that needs
it. So content goes to a hidden temporary name that no reader takes, and is then renamed.
"""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from cdi.faults import FaultPoint, reach

TEMPORARY_SUFFIX: Final = ".tmp"

# From Linux' mount.h; Python has no binding for mount(2).
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MNT_DETACH = 2


class Whole(NamedTuple):
    """The points of a file that appears whole."""

    written: FaultPoint
    """It is complete under its temporary name."""
    placed: FaultPoint
    directory: FaultPoint | None = None
    """Its directory is made; `None` where the directory is always there."""


def make_directory(directory: Path, at: FaultPoint, *, mode: int = 0o755) -> None:
    """Make *directory* with its parents; an existing one is left as it is."""
    directory.mkdir(mode=mode, parents=True, exist_ok=True)
    reach(at)


def make_open_directory(directory: Path, at: FaultPoint) -> None:
    """Make *directory*, in which everybody may write, whatever the process' mask."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o777)
    reach(at)


def write_whole(
    path: Path, content: bytes, at: Whole, *, mode: int = 0o644, sync: bool = False
) -> None:
    """Put *content* at *path* in one step; *sync* makes it outlive a power cut."""
    try:
        _write_whole(path, content, at, mode=mode, sync=sync)
    except FileNotFoundError:
        if at.directory is None:
            raise
        # The directory was never made or is lost, or another instance swept as it started.
        make_directory(path.parent, at.directory)
        _write_whole(path, content, at, mode=mode, sync=sync)


def write_alone(path: Path, content: bytes, at: Whole, *, mode: int = 0o600) -> None:
    """Do what `write_whole` does, synced, to a *path* that nobody else writes at the same time.

    A crash leaves one temporary file at most, which the next write takes.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    temporary = _fixed_temporary(path)
    with _placing(temporary, path, at):
        descriptor = os.open(temporary, flags, mode)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    _sync_directory(path.parent)


def make_sparse(path: Path, size: int, at: Whole, *, mode: int) -> None:
    """Put a file of *size* zero bytes that take no room at *path* in one step."""
    temporary = _fixed_temporary(path)
    temporary.unlink(missing_ok=True)
    with _placing(temporary, path, at):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600)
        try:
            os.ftruncate(descriptor, size)
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def place_link(path: Path, target: str, at: Whole) -> None:
    """Put a link to *target* at *path* in one step, in place of what is there."""
    temporary = _fixed_temporary(path)
    temporary.unlink(missing_ok=True)
    with _placing(temporary, path, at):
        temporary.symlink_to(target)
    _sync_directory(path.parent)


def open_lasting(path: Path, at: FaultPoint, *, append: bool = False) -> int:
    """Open a file of the agent's own to read and write, make it if it is not there."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_APPEND if append else 0)
    descriptor = os.open(path, flags, 0o600)
    reach(at)
    return descriptor


def open_existing(path: Path, access: int) -> int:
    """Open *path* with the flags *access*, in which `O_CREAT` must not be; never follow a link."""
    return os.open(path, access & ~os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC)


def append(descriptor: int, data: bytes, at: FaultPoint, *, size: int) -> None:
    """Write *data* behind the *size* bytes that are there; on failure nothing of it remains."""
    try:
        _write_all(descriptor, data)
    except OSError:
        truncate(descriptor, size, FaultPoint.RECORD_TAKEN_BACK)
        raise
    reach(at)


def truncate(descriptor: int, size: int, at: FaultPoint) -> None:
    """Make the file end after *size* bytes; what it lacks of them reads as zeros."""
    os.ftruncate(descriptor, size)
    reach(at)


def sync_data(descriptor: int, at: FaultPoint) -> None:
    """Make what was written outlive a power cut."""
    os.fdatasync(descriptor)
    reach(at)


def sync_directory(directory: Path, at: FaultPoint) -> None:
    """Make the names in *directory* outlive a power cut."""
    _sync_directory(directory)
    reach(at)


def remove(path: Path, at: FaultPoint) -> None:
    """Remove a file; one that is not there counts as removed."""
    path.unlink(missing_ok=True)
    reach(at)


def sweep_temporary(directory: Path, prefix: str = "") -> int:
    """Remove what writes of files named *prefix*... left that never finished; return how many.

    Call it before the first write only: it also takes a write in progress, which then begins anew.
    """
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names are all that is needed
    except FileNotFoundError:
        return 0
    stale = [
        name for name in names if name.startswith(f".{prefix}") and name.endswith(TEMPORARY_SUFFIX)
    ]
    for name in stale:
        remove(directory / name, FaultPoint.TEMPORARY_SWEPT)
    return len(stale)


def remove_directory(directory: Path, at: FaultPoint) -> None:
    """Remove an empty directory."""
    directory.rmdir()
    reach(at)


def move(path: Path, into: Path, at: FaultPoint) -> None:
    """Move a file into the directory *into*, in place of what has its name there."""
    path.replace(into / path.name)
    reach(at)


def mount_tmpfs(directory: Path, options: bytes, at: FaultPoint) -> None:
    """Mount a file system in memory at *directory*, with nothing on it that can be run."""
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    if _libc().mount(b"gpuslice", os.fsencode(directory), b"tmpfs", flags, options) != 0:
        _raise_errno(directory)
    reach(at)


def unmount(directory: Path, at: FaultPoint) -> None:
    """Take the topmost mount off *directory*; a process that uses a file on it keeps that file."""
    if _libc().umount2(os.fsencode(directory), _MNT_DETACH) != 0:
        _raise_errno(directory)
    reach(at)


def _write_whole(path: Path, content: bytes, at: Whole, *, mode: int, sync: bool) -> None:
    descriptor, name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY_SUFFIX
    )
    with _placing(Path(name), path, at), os.fdopen(descriptor, "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    if sync:
        _sync_directory(path.parent)


@contextmanager
def _placing(temporary: Path, path: Path, at: Whole) -> Iterator[None]:
    """Rename what the block wrote to *temporary*; on failure leave nothing that takes room."""
    try:
        yield
        reach(at.written)
        temporary.replace(path)
    except OSError:
        remove(temporary, FaultPoint.TEMPORARY_DROPPED)
        raise
    reach(at.placed)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fixed_temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")


def _write_all(descriptor: int, data: bytes) -> None:
    # A disk that takes only a part raises at the rest.
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _raise_errno(directory: Path) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), str(directory))
