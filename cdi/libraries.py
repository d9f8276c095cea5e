"""The driver's files that a container needs: libraries under all their names, and programs.

Every file `*.so.<driver version>` beside libcuda belongs to the driver (the toolkit's rule), so
no list of libraries has to follow NVIDIA's releases. Programs load libraries by other names,
which on the host are symlinks beside them.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from cdi.edits import Mount
from cdi.rooted import below, local, resolve_inside
from cdi.tree import DriverTree

READ_ONLY = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_SOCKET = ("nosuid", "nodev", "rbind", "rprivate", "noexec")

_BINARIES = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
_BINARY_DIRS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin")
# Never the host's /tmp/nvidia-mps: its clients would leave their share for the host's daemon.
_SOCKETS = ("nvidia-persistenced/socket", "nvidia-fabricmanager/socket")
_LINK = re.compile(r"lib[^/]+\.so(\.\d+)?")
# Made by ldconfig; a driver root that was never run through it lacks them, programs still ask.
_ALWAYS = (
    ("libcuda.so", "libcuda.so.1"),
    ("libcuda.so", "libcuda.so"),
    ("libnvidia-ml.so", "libnvidia-ml.so.1"),
)


@dataclass(frozen=True, slots=True, order=True)
class Library:
    """One file: *path* in the container, *real* below the driver root."""

    path: str
    real: str


@dataclass(frozen=True, slots=True, order=True)
class Alias:
    """Another name of a library: *path* is the link, *target* what it says, *real* its end."""

    path: str
    target: str
    real: str


def _entries(tree: DriverTree, directory: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(local(tree.local_root, directory)) as entries:
            yield from entries
    except OSError:
        return


def library_folders(tree: DriverTree) -> list[str]:
    """Return the library directories and those `vdpau` directories below them that exist."""
    below_them = (resolve_inside(tree.local_root, f"{d}/vdpau") for d in tree.library_dirs)
    return sorted({*tree.library_dirs, *(found for found in below_them if found is not None)})


def find_libraries(tree: DriverTree) -> list[Library]:
    """Return every library of the driver's version."""
    ending = f".so.{tree.driver_version}"
    found = []
    for folder in library_folders(tree):
        for entry in _entries(tree, folder):
            if not entry.name.endswith(ending) and not entry.name.startswith(
                "libnvidia-nvvm70.so."
            ):
                continue
            path = f"{folder.rstrip('/')}/{entry.name}"
            real = resolve_inside(tree.local_root, path)
            if real is not None and local(tree.local_root, real).is_file():
                found.append(Library(path, real))
    return sorted(found)


def find_aliases(tree: DriverTree, libraries: list[Library]) -> list[Alias]:
    """Return the names under which programs load *libraries*, from the links beside them."""
    paths = {library.path for library in libraries}
    by_real = {library.real: library for library in libraries}
    aliases: dict[str, Alias] = {}
    for library in libraries:
        folder, _, name = library.path.rpartition("/")
        for stem, link in _ALWAYS:
            if name == f"{stem}.{tree.driver_version}":
                target = "libcuda.so.1" if link == "libcuda.so" else name
                path = f"{folder}/{link}"
                aliases[path] = Alias(path, target, library.real)
    for folder in library_folders(tree):
        for entry in _entries(tree, folder):
            path = f"{folder.rstrip('/')}/{entry.name}"
            if path in paths or not _LINK.fullmatch(entry.name) or not entry.is_symlink():
                continue
            real = resolve_inside(tree.local_root, path)
            if real in by_real:
                target = os.readlink(entry.path).rpartition("/")[2]  # noqa: PTH115 - a text
                aliases[path] = Alias(path, target, by_real[real].real)
    return sorted(aliases.values())


def library_mount(tree: DriverTree, path: str, real: str) -> Mount:
    """Return a read-only mount of *real*, a file below the driver root, at *path*."""
    return Mount(host_path=below(tree.host_root, real), container_path=path, options=READ_ONLY)


def binary_mounts(tree: DriverTree) -> list[Mount]:
    """Return mounts of the driver's programs, each where the host has it."""
    mounts = []
    for name in _BINARIES:
        for directory in _BINARY_DIRS:
            path = f"{directory}/{name}"
            real = resolve_inside(tree.local_root, path)
            if real is not None and local(tree.local_root, real).is_file():
                mounts.append(library_mount(tree, path, real))
                break
    return mounts


def socket_mounts(tree: DriverTree) -> list[Mount]:
    """Return mounts of the sockets of the driver's own services."""
    mounts = []
    for name in _SOCKETS:
        for directory in ("/run", "/var/run"):
            real = resolve_inside(tree.local_root, f"{directory}/{name}")
            if real is not None and local(tree.local_root, real).is_socket():
                host = below(tree.host_root, real)
                mounts.append(Mount(host_path=host, container_path=real, options=_SOCKET))
                break
    return mounts
