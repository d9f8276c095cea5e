"""Mounts that tests make and look at: a disk that is full, a directory that is read-only."""

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

# From Linux' mount.h; Python has no binding for mount(2).
_RDONLY, _REMOUNT, _BIND, _DETACH = 1, 32, 4096, 2


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Make *directory* refuse every write for the duration of the block, to root as well."""
    if not may_mount():
        directory.chmod(0o555)
        try:
            yield
        finally:
            directory.chmod(0o755)
        return
    _mount(directory, directory, flags=_BIND)
    try:
        _mount(directory, directory, flags=_BIND | _REMOUNT | _RDONLY)
        yield
    finally:
        unmount(directory)


@contextmanager
def small_disk(directory: Path, *, size_kib: int, inodes: int = 0) -> Iterator[None]:
    """Mount a disk of *size_kib*, for *inodes* files (0: any), during the block."""
    directory.mkdir(parents=True, exist_ok=True)
    options = f"size={size_kib}k,nr_inodes={inodes}"
    _mount(Path("small"), directory, kind=b"tmpfs", data=options.encode())
    try:
        yield
    finally:
        unmount(directory)


@contextmanager
def bound(source: Path, target: Path) -> Iterator[None]:
    """Show *source* at *target*, a file as well, for the duration of the block."""
    _mount(source, target, flags=_BIND)
    try:
        yield
    finally:
        unmount(target)


def fill(directory: Path) -> Path:
    """Write a file into *directory* until nothing more fits, and return it."""
    path = directory / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (65536, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return path


def mounted_below(directory: Path) -> list[Path]:
    """Return every mount point below *directory*, one as often as something is mounted on it."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    points = [Path(line.split()[4]) for line in lines]
    return [point for point in points if directory in point.parents]


def unmount(directory: Path) -> None:
    """Take the topmost mount off *directory*, even while files on it are open."""
    _check(_libc().umount2(os.fsencode(directory), _DETACH), directory)


@cache
def may_mount() -> bool:
    """Tell whether this process has the right to mount."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            _mount(Path("probe"), Path(directory), kind=b"tmpfs")
        except PermissionError:
            return False
        unmount(Path(directory))
        return True


def _mount(
    source: Path, target: Path, *, kind: bytes = b"", flags: int = 0, data: bytes = b""
) -> None:
    result = _libc().mount(
        os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), data
    )
    _check(result, target)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, path: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
