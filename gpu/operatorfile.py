"""What the GPU Operator says about the driver of a node.

The operator validates the driver and then writes `driver-ready` with lines `KEY=VALUE`, blanks
and quotes allowed around values. Other software reads `NVIDIA_DRIVER_ROOT` and
`NVIDIA_DEV_ROOT` from it, both as the host calls them, and waits for the file while the
operator is there. Operators before that file leave `.driver-ctr-ready` once their driver
container is up. Anything unreadable or relative counts as not said.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = "run/nvidia/validations"
_READY = "driver-ready"
_CONTAINER_READY = ".driver-ctr-ready"
_POLL_S = 0.5
_PATH_MAX = 4096
"""The kernel takes no longer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRoots:
    """Absolute host paths, or `None` where the operator does not say."""

    driver_root: str | None
    dev_root: str | None


def wait_for(host_root: Path, *, timeout_s: float, stop: threading.Event) -> OperatorRoots | None:
    """Return the operator's word; wait for it only while the operator is present."""
    directory = host_root / DIRECTORY
    deadline = time.monotonic() + timeout_s
    while True:
        roots = read(directory / _READY)
        if roots is not None:
            return roots
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not directory.is_dir() or (directory / _CONTAINER_READY).exists():
            return None
        if stop.wait(min(left_s, _POLL_S)):
            return None


def read(path: Path) -> OperatorRoots | None:
    """Return what the file at *path* says, or `None` if it cannot be read."""
    try:
        said = dict(_pairs(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        return None
    return OperatorRoots(
        driver_root=_absolute(said.get("NVIDIA_DRIVER_ROOT")),
        dev_root=_absolute(said.get("NVIDIA_DEV_ROOT")),
    )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            yield key.strip(), value.strip().strip("\"'").strip()


def _absolute(path: str | None) -> str | None:
    if path is None or not path.startswith("/") or "\0" in path or len(path) >= _PATH_MAX:
        return None
    return path
