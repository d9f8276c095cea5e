"""Apply CDI edits to a container by the rules of the CDI library (`container-edits.go`).

Environment: the last assignment wins and replaces the pod's value in its place. Device nodes and
mounts replace what has the same path; mounts end up stably sorted by depth. Hooks are appended
and never compared, which is why a name requested twice runs its hooks twice. So are the rules of
the device cgroup.
"""

import os
import posixpath
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sim.driverroot import numbers_of
from sim.runtime.container import DeviceView, HookView, MountView
from sim.runtime.errors import InjectionError
from sim.runtime.spec import DeviceNode, Edits, IntelRdt, Mount

_KINDS = {"c": stat.S_ISCHR, "b": stat.S_ISBLK, "p": stat.S_ISFIFO}


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """What the device cgroup lets the container do with a device; no *access* means nothing."""

    type: str
    major: int
    minor: int
    access: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDevice:
    """A device node that kubelet asks for, without CDI."""

    path: str
    host_path: str
    permissions: str


@dataclass(slots=True, kw_only=True)
class Draft:
    """A container while it is put together."""

    host_root: Path
    env: dict[str, str] = field(default_factory=dict)
    mounts: list[MountView] = field(default_factory=list)
    devices: list[DeviceView] = field(default_factory=list)
    hooks: list[HookView] = field(default_factory=list)
    additional_gids: list[int] = field(default_factory=list)
    device_rules: list[DeviceRule] = field(default_factory=list)
    net_devices: dict[str, str] = field(default_factory=dict)
    """Names in the container by names on the host."""
    intel_rdt: IntelRdt | None = None


def on_host(root: Path, path: str) -> Path:
    """Return where *path* of the node lies on this machine.

    A path that already begins with the node's *root* is taken as it is, because a plugin started
    for a simulated node may know its files by either name.
    """
    if Path(path).is_relative_to(root):
        return Path(path)
    return root / path.lstrip("/")


def apply(draft: Draft, edits: Sequence[Edits]) -> None:
    """Apply *edits* as one; raise `InjectionError` where the host lacks a device."""
    _check_together(edits)
    for one in edits:
        for assignment in one.env:
            key, _, value = assignment.partition("=")
            draft.env[key] = value
        for node in one.device_nodes:
            _add_device(draft, _device(draft.host_root, node))
        draft.net_devices |= {each.host_interface_name: each.name for each in one.net_devices}
        for mount in one.mounts:
            add_mount(draft, _mount(draft.host_root, mount))
        draft.hooks.extend(
            HookView(
                hook_name=hook.hook_name,
                path=hook.path,
                args=hook.args,
                env=hook.env,
                timeout_s=hook.timeout,
            )
            for hook in one.hooks
        )
        draft.intel_rdt = one.intel_rdt or draft.intel_rdt
        _add_gids(draft, one.additional_gids)
    if any(one.mounts for one in edits):
        sort_mounts(draft)


def add_host_device(draft: Draft, device: HostDevice) -> None:
    """Put a device of the host into *draft*; raise `InjectionError` where it is not there."""
    path = on_host(draft.host_root, device.host_path)
    found = _look(path, device.host_path, needed=True) if path.exists() else None
    if found is None:
        message = f"lstat {device.host_path}: no such file or directory"
        raise InjectionError(message)
    view = DeviceView(
        path=device.path,
        host_path=device.host_path,
        type=found.kind,
        major=found.major,
        minor=found.minor,
        permissions=device.permissions,
        file_mode=found.mode,
    )
    _add_device(draft, view)


def check_mounts(draft: Draft) -> None:
    """Check that all that is to be mounted exists; raise `InjectionError`.

    The CDI library does not look; the OCI runtime finds out.
    """
    for mount in draft.mounts:
        if mount.source is not None and not Path(mount.source).exists():
            message = f"failed to mount {mount.host_path}: no such file or directory"
            raise InjectionError(message)


def add_mount(draft: Draft, mount: MountView) -> None:
    """Append *mount* in place of any on the same destination."""
    draft.mounts = [old for old in draft.mounts if old.container_path != mount.container_path]
    draft.mounts.append(mount)


def sort_mounts(draft: Draft) -> None:
    """Sort by depth, so that no mount hides a deeper one; equals keep their order.

    The depth is the number of slashes, so `/` lies as deep as `/a`.
    """
    draft.mounts.sort(key=lambda mount: _clean(mount.container_path).count("/"))


def _clean(path: str) -> str:
    # Python keeps two leading slashes, as POSIX allows.
    return (
        "/" + posixpath.normpath(path).lstrip("/") if path[:1] == "/" else posixpath.normpath(path)
    )


def _check_together(edits: Sequence[Edits]) -> None:
    """Check what no file shows alone: two devices may want one network interface."""
    devices = [one for each in edits for one in each.net_devices]
    for names in ([one.host_interface_name for one in devices], [one.name for one in devices]):
        if len(set(names)) != len(names):
            message = f"invalid linux net device, duplicate among {', '.join(names)}"
            raise InjectionError(message)


def _add_device(draft: Draft, device: DeviceView) -> None:
    draft.devices = [old for old in draft.devices if old.path != device.path]
    draft.devices.append(device)
    if device.type in {"b", "c"}:
        rule = DeviceRule(device.type, device.major, device.minor, device.permissions)
        draft.device_rules.append(rule)


def _add_gids(draft: Draft, gids: Sequence[int]) -> None:
    for gid in gids:
        if gid and gid not in draft.additional_gids:
            draft.additional_gids.append(gid)


def _mount(root: Path, mount: Mount) -> MountView:
    source: Path | None = on_host(root, mount.host_path)
    if mount.type not in {"", "bind"} and not {"bind", "rbind"} & set(mount.options):
        source = None
    return MountView(
        container_path=mount.container_path,
        type=mount.type,
        options=mount.options,
        host_path=mount.host_path,
        source=None if source is None else str(source),
    )


def _device(root: Path, node: DeviceNode) -> DeviceView:
    host_path = node.host_path or node.path
    known = bool(node.type and (node.major or node.type == "p"))
    found = _look(on_host(root, host_path), host_path, needed=not known)
    kind: str = node.type
    major, minor = node.major, node.minor
    if not known and found is not None:
        kind, major, minor = _completed(node, found, host_path)
    mode = node.file_mode
    if mode is None and found is not None:
        mode = found.mode
    return DeviceView(
        path=node.path,
        host_path=host_path,
        type=kind,
        major=major,
        minor=minor,
        permissions={"": "rwm", "none": ""}.get(node.permissions, node.permissions),
        file_mode=mode,
        uid=node.uid,
        gid=node.gid,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    kind: str
    major: int
    minor: int
    mode: int | None


def _look(path: Path, name: str, *, needed: bool) -> _Found | None:
    """Return what the host has at *path*; a plain file stands for a node that only root could make.

    Where that is *needed* and not there, raise `InjectionError`.
    """
    try:
        found = path.lstat()
    except OSError as error:
        if not needed:
            return None
        message = f"failed to stat CDI host device {name!r}: {error.strerror}"
        raise InjectionError(message) from error
    if stat.S_ISREG(found.st_mode):
        major, minor = numbers_of(path) or (0, 0)
        return _Found("c", major, minor, None)
    kind = next((kind for kind, matches in _KINDS.items() if matches(found.st_mode)), None)
    if kind is not None:
        numbers = os.major(found.st_rdev), os.minor(found.st_rdev)
        return _Found(kind, *numbers, stat.S_IMODE(found.st_mode))
    if not needed:
        return None
    message = f"failed to stat CDI host device {name!r}: not a device node"
    raise InjectionError(message)


def _completed(node: DeviceNode, found: _Found, host_path: str) -> tuple[str, int, int]:
    """Return type, major and minor of *node*, what it does not say being taken from the host."""
    kind = node.type or found.kind
    if kind != found.kind:
        message = (
            f"CDI device ({node.path!r}, {host_path!r}), host type mismatch ({kind}, {found.kind})"
        )
        raise InjectionError(message)
    if kind == "p" or node.major:
        return kind, node.major, node.minor
    return kind, found.major, found.minor
