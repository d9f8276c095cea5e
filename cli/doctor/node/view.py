"""The node as the checks see it: the host's files below the place where they are mounted here."""

import os
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpu.rooted import resolve

_BYTES_MAX: Final = 1 << 20
_PCI_DEVICES: Final = "sys/bus/pci/devices"
_NVIDIA: Final = "0x10de"
_DISPLAY: Final = ("0x03", "0x12")
"""Classes of devices: display controllers, and accelerators that drive no display."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node."""

    host_root: Path = Path("/")
    kubelet_root: str = "/var/lib/kubelet"
    """As the host calls it."""
    cdi_directory: str = "/var/run/cdi"
    driver_root: str = "auto"
    library: str = ""
    """The host's path of HAMi-core's library; empty if shares are not limited by one."""
    nvml_command: tuple[str, ...] = ()
    """How to list GPUs in another process, without the driver's root."""
    claim_uids: Callable[[], set[str]] | None = field(default=None, repr=False)
    """Returns the claims that the cluster has, where it can be asked; raises `KubeError`."""

    def at(self, path: str) -> Path:
        """Return where the host's *path* is seen here, links followed as the host would."""
        try:
            return resolve(self.host_root, path)
        except OSError:
            return self.host_root / path.lstrip("/")

    def shared(self, path: str) -> Path:
        """Return the same of a path that the agent's container has as the host calls it, too.

        Such a mount goes before the host's root, which the agent can only read.
        """
        below, same = self.at(path), Path(path)
        if same.is_mount() or (same.exists() and not below.exists()):
            return same
        return below

    def can_write(self, path: Path) -> bool | None:
        """Tell whether the file system of *path* can be written; `None` where it is not to see."""
        if not os.statvfs(path).f_flag & os.ST_RDONLY:
            return True
        is_below = path.is_relative_to(self.host_root) and self.host_root != Path("/")
        if is_below and os.statvfs(self.host_root).f_flag & os.ST_RDONLY:
            # That is how the host's root is mounted here, and says nothing of the host.
            return None
        return False

    def matching(self, pattern: str) -> list[str]:
        """Return the host's paths that match, sorted; only the last part may have wildcards."""
        folder, _, name = pattern.rpartition("/")
        if not any(sign in name for sign in "*?["):
            return [pattern] if self.shared(pattern).exists() else []
        try:
            return sorted(f"{folder}/{each.name}" for each in self.shared(folder).glob(name))
        except OSError:
            return []

    def toml(self, path: str) -> dict[str, Any]:
        """Return the TOML file at *path*; raises `UnreadableFileError`."""
        try:
            text = self.text(path)
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UnreadableFileError(path, f"no TOML: {error}") from error

    def text(self, path: str) -> str:
        """Return a file of the host; raises `UnreadableFileError`."""
        try:
            with self.at(path).open("rb") as file:
                return file.read(_BYTES_MAX).decode()
        except OSError as error:
            raise UnreadableFileError(path, error.strerror or str(error)) from error
        except UnicodeDecodeError as error:
            raise UnreadableFileError(path, "no text") from error

    def has_nvidia_gpus(self) -> bool | None:
        """Tell whether sysfs shows an NVIDIA GPU; `None` where it shows no PCI devices at all."""
        try:
            devices = list(self.at(f"/{_PCI_DEVICES}").iterdir())
        except OSError:
            return None
        return any(_is_gpu(each) for each in devices) if devices else None

    def is_node(self) -> bool:
        """Tell whether there is anything of a node here."""
        return any(self.shared(path).exists() for path in self._signs())

    def _signs(self) -> Iterator[str]:
        yield f"{self.kubelet_root}/plugins_registry"
        yield f"{self.kubelet_root}/pods"
        yield from ("/etc/containerd/config.toml", "/etc/crio/crio.conf", "/var/lib/rancher")


class UnreadableFileError(Exception):
    """A file of the host cannot be read; says which and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path


def _is_gpu(device: Path) -> bool:
    kind = _word(device / "class")
    return _word(device / "vendor") == _NVIDIA and (not kind or kind.startswith(_DISPLAY))


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
