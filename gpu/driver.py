"""Finds the NVIDIA driver's user-space half on a node.

It lies wherever the node's vendor put it: a driver container of the GPU Operator below
/run/nvidia/driver, GKE's installer below /home/kubernetes/bin/nvidia, a package manager below
/usr/lib64 (Fedora), /usr/lib/<arch>-linux-gnu (Debian) or /usr/lib (Arch). Some leave out the
link `libnvidia-ml.so.1`, so a versioned file counts too.

Device nodes are a separate matter: only driver containers bring their own /dev
(nvidia-container-toolkit: devRoot).

The agent sees the host below *host_root*; CDI specs name paths as the host sees them. Hence
every place has two forms here.
"""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu import operatorfile
from gpu.errors import DriverNotFoundError
from gpu.rooted import resolve

AUTO: Final = "auto"
ROOTS: Final = ("/run/nvidia/driver", "/home/kubernetes/bin/nvidia", "/")
LIBRARY_DIRS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "usr/lib",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib",
)

_LINK: Final = "libnvidia-ml.so.1"
_VERSIONED: Final = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRoot:
    """Where the driver is, as the host and as this process see it."""

    host_path: str
    """Such as `/run/nvidia/driver`."""
    local_path: Path
    host_dev_path: str
    """The root whose `dev/` holds the device nodes: this driver root or `/`."""
    local_dev_path: Path
    library_path: Path
    """The NVML library, links followed, as this process opens it."""
    library_dir: Path
    """The directory that holds it, as this process sees it."""


def find(
    root: str = AUTO,
    *,
    host_root: Path = Path("/"),
    operator_wait_s: float = 0.0,
    stop: threading.Event | None = None,
) -> DriverRoot:
    """Return the driver at *root*, or at the first known place that has one.

    With `auto` the GPU Operator is asked first, and waited for up to *operator_wait_s* where it
    is present; *stop* ends that wait. `DriverNotFoundError` names every place tried.
    """
    dev_root = None
    candidates: tuple[str, ...] = (root,)
    if root == AUTO:
        said = operatorfile.wait_for(
            host_root, timeout_s=operator_wait_s, stop=stop or threading.Event()
        )
        candidates = ROOTS
        if said is not None and said.driver_root is not None:
            candidates = (said.driver_root, *(each for each in ROOTS if each != said.driver_root))
            dev_root = said.dev_root
    return _first(candidates, host_root, dev_root)


def _first(candidates: tuple[str, ...], host_root: Path, dev_root: str | None) -> DriverRoot:
    tried: list[tuple[str, str]] = []
    for candidate in candidates:
        local = _directory(host_root, candidate)
        library = None if local is None else _library(local)
        if local is None:
            tried.append((candidate, "no such directory"))
        elif library is None:
            tried.append((candidate, f"not in {', '.join(LIBRARY_DIRS)}"))
        else:
            # What the operator says about nodes belongs to the root that it names.
            named = dev_root if candidate == candidates[0] else None
            if named is None or _directory(host_root, named) is None:
                named = _dev_root(candidate, local, host_root)
            return DriverRoot(
                host_path=candidate,
                local_path=local,
                host_dev_path=named,
                local_dev_path=resolve(host_root, named),
                library_path=library,
                library_dir=library.parent,
            )
    raise DriverNotFoundError(tried)


def _directory(host_root: Path, path: str) -> Path | None:
    try:
        local = resolve(host_root, path)
    except OSError:
        return None
    return local if local.is_dir() else None


def _library(root: Path) -> Path | None:
    found = (library for name in LIBRARY_DIRS for library in _in_directory(root, name))
    return next(found, None)


def _in_directory(root: Path, name: str) -> Iterator[Path]:
    """Yield usable files: the one that the link names, then versions from new to old."""
    directory = _directory(root, name)
    if directory is None:
        return
    versions = (path.name for path in directory.glob("libnvidia-ml.so.*"))
    known = sorted(filter(_VERSIONED.fullmatch, versions), key=_version, reverse=True)
    for file in (_LINK, *known):
        try:
            target = resolve(root, f"{name}/{file}")
        except OSError:
            continue
        if target.is_file():
            yield target


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(".so.")[1].split("."))


def _dev_root(candidate: str, local: Path, host_root: Path) -> str:
    """Return the root whose /dev has the nodes; an empty /dev must not hide the host's."""
    if (local / "dev" / "nvidiactl").exists():
        return candidate
    if (host_root / "dev" / "nvidiactl").exists() or not (local / "dev").is_dir():
        return "/"
    return candidate
