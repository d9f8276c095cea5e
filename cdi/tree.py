"""The user-space half of an NVIDIA driver, found in the file system.

Everything of one driver build carries its version at the end of its name (`libcuda.so.580.82.07`),
so the version and the directories that hold such files are all there is to know; the search order
is that of NVIDIA's toolkit (internal/lookup/root). The node's `/dev`, `/proc` and `/sys` are
injectable, because a driver container has its own and a test has none.
"""

import os
import platform
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdi.rooted import local, resolve_inside
from gpu.refusal import Refusal, RefusedError

_VERSIONED = re.compile(r"(?:libcuda|libnvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)*)")


def character_device(path: Path) -> tuple[int, int] | None:
    """Return major and minor of the character device at *path*; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISCHR(found.st_mode):
        return None
    return os.major(found.st_rdev), os.minor(found.st_rdev)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where the node shows its devices: *local_* in our view, *host_* in the runtime's."""

    local_dev_root: Path = Path("/")
    """The directory that holds `dev`, not `dev` itself."""
    host_dev_root: str = "/"
    proc_root: Path = Path("/proc")
    sys_root: Path = Path("/sys")
    device_numbers: Callable[[Path], tuple[int, int] | None] = character_device


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTree(Surroundings):
    """One driver build; *library_dirs* are absolute below the root and free of symlinks."""

    local_root: Path
    host_root: str
    driver_version: str
    library_dirs: tuple[str, ...]


def _search_path(machine: str) -> tuple[str, ...]:
    multiarch = f"{machine}-linux-gnu"
    return (
        "/",
        "/usr/lib64",
        f"/usr/lib/{multiarch}",
        f"/usr/lib/{multiarch}/nvidia/current",
        "/lib64",
        f"/lib/{multiarch}",
        f"/lib/{multiarch}/nvidia/current",
        # Arch and its kin; the toolkit finds these through the loader's cache.
        "/usr/lib",
        "/lib",
    )


def _existing(root: Path, directories: Sequence[str]) -> Iterator[str]:
    for directory in directories:
        found = resolve_inside(root, directory)
        if found is not None and local(root, found).is_dir():
            yield found


def _versions(root: Path, directory: str) -> dict[str, str]:
    """Return driver versions in *directory*, each with a file that carries it."""
    with os.scandir(local(root, directory)) as entries:
        matches = (_VERSIONED.fullmatch(entry.name) for entry in entries)
        return {match[1]: match[0] for match in matches if match}


def _linked_version(root: Path, directories: Sequence[str]) -> str | None:
    for directory in directories:
        found = resolve_inside(root, f"{directory}/libcuda.so.1")
        match = found and _VERSIONED.fullmatch(found.rpartition("/")[2])
        if match:
            return match[1]
    return None


def _refuse(code: str, value: str, limit: str, remedy: str) -> RefusedError:
    return RefusedError(
        Refusal(code=code, field="nvidiaDriverRoot", value=value, limit=limit, remedy=remedy)
    )


def scan(
    local_root: Path,
    *,
    host_root: str,
    surroundings: Surroundings | None = None,
    driver_version: str | None = None,
    library_search_path: Sequence[str] | None = None,
) -> DriverTree:
    """Find the driver below *local_root*, which the runtime knows as *host_root*.

    *driver_version* is what NVML says; where it is given, files of another version are refused,
    since they would fail in every container.
    """
    searched = library_search_path or _search_path(platform.machine())
    directories = tuple(dict.fromkeys(_existing(local_root, searched)))
    by_directory = {directory: _versions(local_root, directory) for directory in directories}
    found = {version for versions in by_directory.values() for version in versions}
    if not found:
        raise _refuse(
            "DriverLibrariesMissing",
            host_root,
            f"no libcuda.so.<version> in {', '.join(searched)}",
            "set nvidiaDriverRoot to where the driver is installed",
        )
    if driver_version is not None and driver_version not in found:
        raise _refuse(
            "DriverVersionMismatch",
            ", ".join(sorted(found)),
            f"the loaded kernel module is {driver_version}",
            "reboot the node or reload the module after a driver update",
        )
    chosen = driver_version or (
        found.pop() if len(found) == 1 else _linked_version(local_root, directories)
    )
    if chosen is None:
        raise _refuse(
            "DriverVersionAmbiguous",
            ", ".join(sorted(found)),
            "libcuda.so.1 points to none of them",
            "remove the libraries of the old driver",
        )
    around = surroundings or Surroundings()
    return DriverTree(
        local_root=local_root,
        host_root=host_root,
        driver_version=chosen,
        library_dirs=tuple(d for d, versions in by_directory.items() if chosen in versions),
        local_dev_root=around.local_dev_root,
        host_dev_root=around.host_dev_root,
        proc_root=around.proc_root,
        sys_root=around.sys_root,
        device_numbers=around.device_numbers,
    )
