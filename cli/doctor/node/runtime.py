"""The container runtime of the node: what it is, and where it looks for CDI specs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cli.doctor.node import containerd, cri, crio
from cli.doctor.node.view import Node, UnreadableFileError
from cli.doctor.release import Release, release_of

SOCKETS: Final = (
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/run/crio/crio.sock",
)
CONTAINERD: Final = "containerd"
CRI_O: Final = "cri-o"

_ASK_S: Final = 3.0
_CDI_BY_DEFAULT: Final = (2, 0)
_CDI_ALWAYS: Final = (2, 4)
_FORM_OF_2: Final = 3


class NoRuntimeError(Exception):
    """No runtime is found, or it cannot be looked at; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A runtime as it is configured."""

    name: str
    release: Release | None
    cdi_enabled: bool | None
    """`None` where it depends on a release that is not known."""
    spec_dirs: tuple[str, ...]
    default_runtime: str
    """The name of the OCI runtime of pods that name none; empty where that is not said."""
    default_path: str
    """Its program, where that is said."""
    source: str
    """Where that is from."""
    problems: tuple[str, ...] = ()


def look(node: Node) -> Runtime:
    """Return the node's runtime; raises `NoRuntimeError`."""
    told, silent = _told(node)
    if told is not None and told.name == CONTAINERD and told.config:
        return _by_containerd(told)
    release = None if told is None else release_of(told.version)
    try:
        path = containerd.find(node)
        if path is not None and (told is None or told.name == CONTAINERD):
            return _by_files(node, path, release)
        if crio.is_there(node) or (told is not None and told.name == CRI_O):
            return _of_crio(node, release)
    except UnreadableFileError as error:
        raise NoRuntimeError(str(error)) from error
    said = f"; {silent}" if silent else ""
    message = f"no configuration of containerd or CRI-O is found{said}"
    raise NoRuntimeError(message)


def _told(node: Node) -> tuple[cri.Told | None, str]:
    reason = ""
    for path in SOCKETS:
        socket = node.at(path)
        if not socket.is_socket():
            continue
        try:
            return cri.ask(socket, timeout_s=_ASK_S), ""
        except cri.NotToldError as error:
            reason = reason or str(error)
    return None, reason


def _by_containerd(told: cri.Told) -> Runtime:
    config = told.config
    release = release_of(told.version)
    said = config.get("enableCDI")
    runtimes = _object(config, "containerd")
    name = str(runtimes.get("defaultRuntimeName") or "")
    options = _object(_object(_object(runtimes, "runtimes"), name), "options")
    return Runtime(
        name=told.name,
        release=release,
        cdi_enabled=_enabled(said, release, form=0),
        spec_dirs=tuple(config.get("cdiSpecDirs") or ()),
        default_runtime=name,
        default_path=str(options.get("BinaryName") or ""),
        source="the running containerd",
    )


def _by_files(node: Node, path: str, release: Release | None) -> Runtime:
    found = containerd.read(node, path, major=release.major if release else None)
    section = found.section
    runtimes = _object(section, "containerd")
    name = str(runtimes.get("default_runtime_name") or "")
    options = _object(_object(_object(runtimes, "runtimes"), name), "options")
    return Runtime(
        name=CONTAINERD,
        release=release,
        cdi_enabled=_enabled(section.get("enable_cdi"), release, form=found.form),
        spec_dirs=tuple(section.get("cdi_spec_dirs") or containerd.DEFAULT_DIRS),
        default_runtime=name or "runc",
        default_path=str(options.get("BinaryName") or ""),
        source=", ".join(found.files),
        problems=found.problems,
    )


def _of_crio(node: Node, release: Release | None) -> Runtime:
    files, section = crio.read(node)
    name = str(section.get("default_runtime") or "")
    runtime = _object(_object(section, "runtimes"), name)
    return Runtime(
        name=CRI_O,
        release=release,
        cdi_enabled=True,
        spec_dirs=tuple(section.get("cdi_spec_dirs") or containerd.DEFAULT_DIRS),
        default_runtime=name,
        default_path=str(runtime.get("runtime_path") or ""),
        source=", ".join(files) or "CRI-O's defaults",
    )


def _enabled(said: object, release: Release | None, *, form: int) -> bool | None:
    """Tell whether CDI is on: as said, unless the release does not ask, else its default."""
    if release is not None and release[:2] >= _CDI_ALWAYS:
        return True
    if isinstance(said, bool):
        return said
    if release is not None:
        return release[:2] >= _CDI_BY_DEFAULT
    return True if form >= _FORM_OF_2 else None


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}
