"""A simulated driver in this process, reached through NVML's own binding."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml

from sim import nvml


class Driver:
    """A simulated driver in this process, its GPU file, and how to change it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._edits = 0

    def has(self, text: str) -> None:
        """Describe the node anew; the time stamp moves even if the clock has not."""
        self._path.write_text(text, encoding="utf-8")
        self._edits += 1
        os.utime(self._path, ns=(self._edits, self._edits))

    def starts(self, text: str) -> None:
        """Describe the node and open a session on it."""
        self.has(text)
        nvml.install(self._path)
        pynvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)


def gpu(index: int = 0) -> Any:
    """Return a handle."""
    return pynvml.nvmlDeviceGetHandleByIndex(index)


@contextmanager
def a_driver(path: Path) -> Iterator[Driver]:
    """Lend a driver with its GPU file at *path*, and give the binding back afterwards."""
    try:
        yield Driver(path)
    finally:
        nvml.uninstall()
