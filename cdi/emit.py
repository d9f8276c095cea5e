"""What we demand of the specs we write, over what the library demands of anyone's.

SPEC.md states rules that the library leaves unchecked (relative paths, odd variable names, class
and vendor lengths), and other readers may check them. The rest keeps promises of ours: device
nodes always say their type and numbers, because a container otherwise loses them when systemd
reloads; no value depends on which of two edits comes last; and `CUDA_VISIBLE_DEVICES` is never
set, because HAMi-core reads a UUID in it as device 0 and then enforces nothing.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from cdi.edits import ContainerEdits, DeviceNode, Mount
from cdi.errors import SpecError
from cdi.spec import Spec
from cdi.version import LOWEST_EMITTED, minimum_version, newest

_CLASS_MAX = 63
_VENDOR_MAX = 253
_DEVICE_MAX = 253
_ANNOTATIONS_MAX_BYTES = 256 * 1024

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_VENDOR = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_ANNOTATION_KEY = re.compile(
    rf"({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?"
)
# Printable, absolute, and without empty, `.` and `..` parts: what a runtime would have to clean.
_PATH = re.compile(r"(/(?!\.{0,2}(/|$))[^/\x00-\x1f\x7f]+)+")
# As many paths as a node's drivers can bring: most of a claim's are those of the last one.
_PATHS_KEPT = 4096
_FORBIDDEN_ENV = frozenset({"CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_LIBRARY_PATH"})
_FOREIGN_VENDOR = "nvidia.com"


@lru_cache(_PATHS_KEPT)
def _is_clean(path: str) -> bool:
    return _PATH.fullmatch(path) is not None


def check_emitted(spec: Spec) -> Spec:
    """Return *spec* if we may write it; SpecError names the first rule of ours that it breaks."""
    for field, reason in _problems(spec):
        raise SpecError(field, reason)
    return spec


def _problems(spec: Spec) -> Iterator[tuple[str, str]]:
    vendor, _, cls = spec.kind.partition("/")
    if not (1 < len(vendor) <= _VENDOR_MAX and _VENDOR.fullmatch(vendor)):
        yield "kind", "the vendor has to be a DNS subdomain of 2 to 253 characters"
    if vendor == _FOREIGN_VENDOR:
        yield "kind", f"{_FOREIGN_VENDOR} belongs to NVIDIA's toolkit"
    if not 1 < len(cls) <= _CLASS_MAX:
        yield "kind", "the class has to have 2 to 63 characters"
    if spec.cdi_version != newest(LOWEST_EMITTED, minimum_version(spec)):
        yield "cdiVersion", "has to be the lowest possible from 0.5.0 on"
    yield from _annotations("annotations", spec.annotations)
    yield from _edits("containerEdits", spec.container_edits)
    for device in spec.devices:
        field = f"devices[{device.name}]"
        if len(device.name) > _DEVICE_MAX:
            yield f"{field}.name", f"is longer than {_DEVICE_MAX} characters"
        yield from _annotations(f"{field}.annotations", device.annotations)
        yield from _edits(f"{field}.containerEdits", device.container_edits)


def _annotations(field: str, annotations: dict[str, str]) -> Iterator[tuple[str, str]]:
    for key in annotations:
        if _ANNOTATION_KEY.fullmatch(key) is None:
            yield field, f"`{key}` is no qualified name"
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > (
        _ANNOTATIONS_MAX_BYTES
    ):
        yield field, "is larger than 256 KiB"


def _edits(field: str, edits: ContainerEdits) -> Iterator[tuple[str, str]]:
    yield from _env(f"{field}.env", edits.env)
    yield from _once(f"{field}.deviceNodes", [node.path for node in edits.device_nodes])
    for node in edits.device_nodes:
        yield from _node(f"{field}.deviceNodes[{node.path}]", node)
    yield from _once(f"{field}.mounts", [mount.container_path for mount in edits.mounts])
    for mount in edits.mounts:
        yield from _mount(f"{field}.mounts[{mount.container_path}]", mount)
    for hook in edits.hooks:
        if not _is_clean(hook.path):
            yield f"{field}.hooks", f"`{hook.path}` is no clean absolute path"
        yield from _env(f"{field}.hooks[{hook.path}].env", hook.env)


def _env(field: str, env: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    names = [text.partition("=")[0] for text in env]
    yield from _once(field, names)
    for name in names:
        if _ENV_NAME.fullmatch(name) is None:
            yield field, f"`{name}` is no name of a variable"
        if name in _FORBIDDEN_ENV:
            yield field, f"{name} belongs to the user"
    if any("\x00" in text or "\n" in text for text in env):
        yield field, "a value spans lines"


def _once(field: str, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            yield field, f"`{key}` is given twice"
        seen.add(key)


def _node(field: str, node: DeviceNode) -> Iterator[tuple[str, str]]:
    if not _is_clean(node.path) or (node.host_path and not _is_clean(node.host_path)):
        yield field, "is no clean absolute path"
    if node.type not in {"c", "b"} or not node.major or node.minor is None:
        yield field, "has to say type, major and minor"
    if not node.permissions or node.permissions == "none":
        yield field, "has to say permissions that every library knows"


def _mount(field: str, mount: Mount) -> Iterator[tuple[str, str]]:
    if not _is_clean(mount.host_path):
        yield field, f"`{mount.host_path}` is no clean absolute path"
    if not _is_clean(mount.container_path):
        yield field, "is no clean absolute path"
