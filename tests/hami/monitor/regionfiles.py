"""Regions that the real library wrote, and processes that write into regions as it does."""

import gzip
import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from hami.monitor.regions.layouts import V1_2, Layout
from tests.patience import DEADLINE_S

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(
    str(path.relative_to(FIXTURES)).removesuffix(".json") for path in FIXTURES.rglob("*.json")
)


def said_of(name: str) -> dict[str, Any]:
    """Return what is in the region *name*, as the C program that made it decoded it."""
    found: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    return found


@cache
def content_of(name: str) -> bytes:
    """Return the bytes of the region *name*."""
    return gzip.decompress((FIXTURES / f"{name}.cache.gz").read_bytes())


def placed(name: str, path: Path) -> Path:
    """Put the region *name* at *path*, with holes where it is empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for start, page in _pages(name):
            file.seek(start)
            file.write(page)
        file.truncate(len(content_of(name)))
    return path


@cache
def _pages(name: str) -> tuple[tuple[int, bytes], ...]:
    """Return the pages of the region *name* that hold anything, with their places."""
    content = content_of(name)
    pages = ((start, content[start : start + 4096]) for start in range(0, len(content), 4096))
    return tuple((start, page) for start, page in pages if any(page))


def poke(path: Path, offset: int, value: int, size: int = 4) -> None:
    """Write a number into the region at *path*."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(value.to_bytes(size, "little", signed=value < 0))


def peek(path: Path, offset: int, size: int = 4) -> int:
    """Return a signed number in the region at *path*."""
    with path.open("rb") as file:
        file.seek(offset)
        return int.from_bytes(file.read(size), "little", signed=True)


def peek_recent(path: Path, layout: Layout = V1_2) -> int:
    """Return whether launches wait in the region at *path*."""
    return peek(path, layout.recent_kernel)


_WRITER = """
import mmap, os, struct, sys
path, start, used, seqlock, count = sys.argv[1], *map(int, sys.argv[2:6])
handle = os.open(path, os.O_RDWR)
view = mmap.mmap(handle, 0)
number, sequence = 0, 0
while True:
    number += 1
    sequence += 1
    struct.pack_into("<Q", view, start + seqlock, sequence)
    for device in range(count):
        for field in range(5):
            struct.pack_into("<Q", view, start + used + 64 * device + 8 * field, number)
    sequence += 1
    struct.pack_into("<Q", view, start + seqlock, sequence)
    if number == 1:
        print("writes", flush=True)
    # The library writes now and then; this at least as long as not.
    for _ in range(400):
        pass
"""


@contextmanager
def writing(path: Path, layout: Layout = V1_2, devices: int = 2) -> Iterator[subprocess.Popen[str]]:
    """Run a process that writes the same number into all of its first slot, again and again."""
    assert layout.slot.seqlock is not None
    places = (layout.slots, layout.slot.used, layout.slot.seqlock, devices)
    child = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-E", "-S", "-c", _WRITER, str(path), *map(str, places)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert select.select([child.stdout], [], [], DEADLINE_S)[0], "it says nothing"
        assert child.stdout.readline() == "writes\n"
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
