"""Apply CDI edits to a container by the rules of the CDI library (`container-edits.go`).

Environment: the last assignment wins and replaces the pod's value in its place. Device nodes and
mounts replace what has the same path; mounts end up stably sorted by depth. Hooks are appended
and never compared, which is why a name requested twice runs its hooks twice.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sim.driverroot import numbers_of
from sim.runtime.container import DeviceView, HookView, MountView
from sim.runtime.errors import InjectionError
from sim.runtime.spec import DeviceNode, Edits, Mount

_KINDS = {"c": stat.S_ISCHR, "u": stat.S_ISCHR, "b": stat.S_ISBLK, "p": stat.S_ISFIFO}


@dataclass(slots=True, kw_only=True)
class Draft:
    """A container while it is put together."""

    host_root: Path
    env: dict[str, str] = field(default_factory=dict)
    mounts: list[MountView] = field(default_factory=list)
    devices: list[DeviceView] = field(default_factory=list)
    hooks: list[HookView] = field(default_factory=list)
    additional_gids: list[int] = field(default_factory=list)


def on_host(root: Path, path: str) -> Path:
    """Return where *path* of the node lies on this machine.

    A path that already begins with the node's *root* is taken as it is, because a plugin started
    for a simulated node may know its files by either name.
    """
    if Path(path).is_relative_to(root):
        return Path(path)
    return root / path.lstrip("/")


def apply(draft: Draft, edits: Iterable[Edits]) -> None:
    """Apply *edits* in order; raise `InjectionError` where the host lacks something."""
    for one in edits:
        for assignment in one.env:
            key, _, value = assignment.partition("=")
            draft.env[key] = value
        for node in one.device_nodes:
            _add_device(draft, _device(draft.host_root, node))
        for mount in one.mounts:
            add_mount(draft, _mount(draft.host_root, mount))
        draft.hooks.extend(
            HookView(hook_name=hook.hook_name, path=hook.path, args=hook.args, env=hook.env)
            for hook in one.hooks
        )
        _add_gids(draft, one.additional_gids)
    sort_mounts(draft)


def add_mount(draft: Draft, mount: MountView) -> None:
    """Append *mount* in place of any on the same destination."""
    draft.mounts = [old for old in draft.mounts if old.container_path != mount.container_path]
    draft.mounts.append(mount)


def sort_mounts(draft: Draft) -> None:
    """Sort by depth, so that no mount hides a deeper one; equals keep their order."""
    draft.mounts.sort(
        key=lambda mount: len([part for part in mount.container_path.split("/") if part])
    )


def _add_device(draft: Draft, device: DeviceView) -> None:
    draft.devices = [old for old in draft.devices if old.path != device.path]
    draft.devices.append(device)


def _add_gids(draft: Draft, gids: Sequence[int]) -> None:
    for gid in gids:
        if gid and gid not in draft.additional_gids:
            draft.additional_gids.append(gid)


def _mount(root: Path, mount: Mount) -> MountView:
    source: Path | None = on_host(root, mount.host_path)
    if mount.type not in {"", "bind"} and not {"bind", "rbind"} & set(mount.options):
        source = None
    if source is not None and not source.exists():
        message = f"failed to mount {mount.host_path}: no such file or directory"
        raise InjectionError(message)
    return MountView(
        container_path=mount.container_path,
        type=mount.type or "bind",
        options=mount.options,
        host_path=mount.host_path,
        source=None if source is None else str(source),
    )


def _device(root: Path, node: DeviceNode) -> DeviceView:
    host_path = node.host_path or node.path
    known = node.type and (node.major or node.type == "p")
    given = (str(node.type), node.major, node.minor)
    kind, major, minor = given if known else _ask_host(root, node, host_path)
    return DeviceView(
        path=node.path,
        host_path=host_path,
        type=kind,
        major=major,
        minor=minor,
        permissions=node.permissions or "rwm",
        file_mode=node.file_mode,
        uid=node.uid,
        gid=node.gid,
    )


def _ask_host(root: Path, node: DeviceNode, host_path: str) -> tuple[str, int, int]:
    """Complete *node* from the host; a plain file stands for a node that only root could make."""
    try:
        found = on_host(root, host_path).stat()
    except OSError as error:
        message = f"failed to stat CDI host device {host_path!r}: {error.strerror}"
        raise InjectionError(message) from error
    if stat.S_ISREG(found.st_mode):
        numbers = numbers_of(on_host(root, host_path)) or (node.major, node.minor)
        return node.type or "c", *numbers
    kind = next((kind for kind, matches in _KINDS.items() if matches(found.st_mode)), None)
    if kind is None:
        message = f"{host_path!r} is not a device node"
        raise InjectionError(message)
    if node.type and node.type not in {kind, "u"}:
        message = f"{host_path!r} is of type {kind}, not {node.type}"
        raise InjectionError(message)
    return kind, os.major(found.st_rdev), os.minor(found.st_rdev)
