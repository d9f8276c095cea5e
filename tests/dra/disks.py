"""A disk that is full soon, where the tests may mount one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, *, size_kib: int) -> Iterator[Path]:
    """Mount a tmpfs of *size_kib* at *path*; skip the test where that is not allowed."""
    path.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "gpuslice-test", str(path)]
    mounted = subprocess.run(options, check=False, capture_output=True, text=True)  # noqa: S603
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)  # noqa: S603, S607


def turn(path: Path, mode: str) -> None:
    """Make the disk at *path* read-only (`ro`) or writable (`rw`)."""
    subprocess.run(["mount", "-o", f"remount,{mode}", str(path)], check=True)  # noqa: S603, S607


def fill(path: Path) -> Path:
    """Take the rest of the room on the disk of *path*; delete the returned file to free it."""
    ballast = path / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for block in (b"x" * 4096, b"x"):
            try:
                while file.write(block):
                    pass
            except OSError:
                continue
    return ballast
