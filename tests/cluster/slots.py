"""Folders for the clusters of test sessions, so that sessions side by side spare one another.

A session holds the lock of its folder while it lives, and the kernel lets go when it is killed;
the next one to get the folder then clears what was left in it.
"""

import fcntl
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.cluster.down import take_down
from tests.cluster.places import State


@contextmanager
def slot(base: Path) -> Iterator[Path]:
    """Hold the first folder below *base* that no other session holds, cleared, for the block."""
    folder, lock = _first_free(base)
    with lock:
        folder.mkdir(exist_ok=True)
        _clear(folder)
        try:
            yield folder
        finally:
            _clear(folder)
            folder.rmdir()


def _first_free(base: Path) -> tuple[Path, IO[str]]:
    base.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        folder = base / f"tests-{number}"
        lock = (base / f"{folder.name}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            return folder, lock
    raise AssertionError


def _clear(folder: Path) -> None:
    for state in folder.iterdir():
        take_down(State(state))
