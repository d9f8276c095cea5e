"""Checks of kubelet's directories: where they are, whether our sockets in them are answered.

Kubelet opens a plugin's socket by the path that it is told, and looks for registrations in one
directory below its root. Where `--root-dir` moves that, an agent that was not told waits for ever.
"""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cli.doctor.model import Check, Verdict, counted, failed, ok, skipped, unknown, warning
from cli.doctor.node.view import Node
from gpu.names import DRIVER

_ELSEWHERE: Final = (
    "/var/lib/k0s/kubelet",
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/var/lib/rancher/k3s/agent/kubelet",
    "/opt/kubelet",
    "/data/kubelet",
    "/mnt/kubelet",
    "/home/kubelet",
)
_FLAG: Final = "--root-dir"
_CONNECT_S: Final = 2.0
_FREE_MIN_MIB: Final = 64
_MIB: Final = 1 << 20


def root(node: Node) -> Verdict:
    """Look for kubelet's root, and say where it is instead."""
    if node.shared(f"{node.kubelet_root}/plugins_registry").is_dir():
        moved = next(iter(_by_processes(node)), node.kubelet_root)
        if node.shared(moved) != node.shared(node.kubelet_root):
            said = f"kubelet runs with {_FLAG}={moved}, not {node.kubelet_root}"
            return failed(said, f"give the agent --kubelet-root={moved} (chart: kubeletRoot)")
        return ok(f"{node.kubelet_root} has plugins_registry")
    places = [*_by_processes(node), *_ELSEWHERE]
    found = [path for path in places if node.shared(f"{path}/plugins_registry").is_dir()]
    if found:
        said = f"{node.kubelet_root} has no plugins_registry, but {found[0]} has"
        return failed(said, f"give the agent --kubelet-root={found[0]} (chart: kubeletRoot)")
    said = f"{node.kubelet_root} has no plugins_registry, and no other root is known"
    return failed(said, "name kubelet's --root-dir with --kubelet-root")


def _by_processes(node: Node) -> Iterator[str]:
    """Yield the roots that running kubelets were given."""
    try:
        processes = [each for each in node.at("/proc").iterdir() if each.name.isdecimal()]
    except OSError:
        return
    for process in processes:
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if Path(words[0]).name not in {"kubelet", "k3s", "k0s", "rke2"}:
            continue
        for index, word in enumerate(words):
            name, sign, value = word.partition("=")
            if name == _FLAG:
                following = words[index + 1] if index + 1 < len(words) else ""
                if path := value if sign else following:
                    yield path


def registration(node: Node) -> Verdict:
    """Try our sockets: an agent must answer each, and a dead one keeps kubelet busy."""
    registry = f"{node.kubelet_root}/plugins_registry"
    if not node.shared(registry).is_dir():
        return skipped(f"there is no {registry}")
    try:
        names = sorted(each.name for each in node.shared(registry).iterdir())
    except OSError as error:
        return unknown(f"{registry}: {error.strerror}", "run this as root")
    ours = [f"{registry}/{name}" for name in names if name.startswith(DRIVER)]
    plugin = f"{node.kubelet_root}/plugins/{DRIVER}"
    ours += node.matching(f"{plugin}/dra*.sock")
    ours += node.matching(f"{node.kubelet_root}/device-plugins/gpuslice-*.sock")
    if not ours:
        return warning(
            "no socket of ours, neither for claims nor of a device plugin: no agent serves here",
            "see whether the agent runs on this node, and its log",
        )
    return _tried(node, ours)


def _tried(node: Node, ours: list[str]) -> Verdict:
    states = {path: _answered(node.shared(path)) for path in ours}
    dead = [path for path, problem in states.items() if problem == errno.ECONNREFUSED]
    closed = [path for path, problem in states.items() if problem in {errno.EACCES, errno.EPERM}]
    if len(dead) == len(ours):
        said = "nobody answers the sockets of ours: the agent has ended"
        return failed(said, "see the agent's log; it removes what is left at its start", *dead)
    if dead:
        said = f"nobody answers {counted(len(dead), 'socket')}, left by an agent that was killed"
        return warning(said, "remove them, or restart the agent", *dead)
    if closed:
        return unknown("the sockets may not be opened by this user", "run this as root", *closed)
    return ok(f"{counted(len(ours), 'socket')} of ours, all answered")


def _answered(path: Path) -> int:
    """Connect to the socket; return the error's number, 0 for none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
        tried.settimeout(_CONNECT_S)
        try:
            tried.connect(str(path))
        except OSError as error:
            return error.errno or errno.EIO
    return 0


def plugin_directory(node: Node) -> Verdict:
    """Look whether the agent's state can be written."""
    path = f"{node.kubelet_root}/plugins"
    ours = f"{path}/{DRIVER}"
    folder = node.shared(ours) if node.shared(ours).is_dir() else node.shared(path)
    if not folder.is_dir():
        return skipped(f"there is no {path}")
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return unknown(f"{ours}: {error.strerror}")
    free_mib = found.f_bavail * found.f_frsize // _MIB
    if node.can_write(folder) is False:
        return failed(f"{ours} is on a file system that is read-only", "mount it read-write")
    if free_mib < _FREE_MIN_MIB or (found.f_files and not found.f_favail):
        what = f"{free_mib} MiB" if found.f_favail or not found.f_files else "no inode"
        return failed(f"{what} free at {ours}: no claim can be prepared", "make room there")
    there = "is there" if node.shared(ours).is_dir() else "is not there yet"
    return ok(f"{ours} {there}, {free_mib} MiB free")


CHECKS: Final = (
    Check(id="kubelet-root", run=root),
    Check(id="registration", run=registration),
    Check(id="plugin-directory", run=plugin_directory),
)
