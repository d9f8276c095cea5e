"""Where the plugin's two sockets are, and what to do with those a killed process left.

Kubelet finds the registration socket by watching one directory and the other by the path that it
is told. With a pod UID in the names two instances can run during a rolling update; kubelet's
library shortens names that would not fit into a socket address, and so do we, so that operators
find the names that they know (kubernetes/dynamic-resource-allocation: kubeletplugin).
"""

import base64
import errno
import hashlib
import socket
from dataclasses import dataclass
from pathlib import Path

import structlog

from cdi.durable import remove
from cdi.faults import FaultPoint

SOCKET_PATH_MAX = 107
"""`sun_path` has 108 bytes, the last of which is the terminator."""

log = structlog.get_logger(__name__)


class SocketPathTooLongError(Exception):
    """A socket's path does not fit into a socket address; move the kubelet directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: longer than {SOCKET_PATH_MAX} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketPaths:
    """The sockets of one plugin process."""

    registration: Path
    dra: Path


def socket_paths(
    *, registry: Path, plugin_directory: Path, driver: str, pod_uid: str
) -> SocketPaths:
    """Return the paths; *pod_uid* is empty where only one instance ever runs."""
    dra = plugin_directory / (f"dra-{pod_uid}.sock" if pod_uid else "dra.sock")
    registration = registry / f"{driver}-reg.sock"
    if pod_uid:
        candidates = [registry / name for name in _names(driver, pod_uid)]
        fitting = (path for path in candidates if _fits(path))
        registration = next(fitting, candidates[-1])
    for path in (registration, dra):
        if not _fits(path):
            raise SocketPathTooLongError(path)
    return SocketPaths(registration=registration, dra=dra)


def _names(driver: str, pod_uid: str) -> list[str]:
    short_uid = _base64(hashlib.sha256(pod_uid.encode()).digest()[:8])
    both = hashlib.sha256(f"{driver}\0{pod_uid}".encode()).digest()[:16]
    return [
        f"{driver}-{pod_uid}-reg.sock",
        f"{driver}-{short_uid}-reg.sock",
        f"dra-{_base64(both)}-reg.sock",
    ]


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _fits(path: Path) -> bool:
    return len(str(path).encode()) <= SOCKET_PATH_MAX


def remove_stale(directory: Path, pattern: str) -> list[Path]:
    """Remove sockets matching *pattern* that nobody listens on; one that answers is left."""
    removed = []
    for path in sorted(directory.glob(pattern)):
        if path.is_socket() and not _answers(path):
            remove(path, FaultPoint.STALE_SOCKET_REMOVED)
            log.info("stale socket removed", path=str(path))
            removed.append(path)
    return removed


def _answers(path: Path) -> bool:
    """Tell whether somebody listens; only a refusal is a sure no."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError as error:
            return error.errno != errno.ECONNREFUSED
    return True
