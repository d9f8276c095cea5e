"""How containerd is configured, from its files.

Three forms are in use: 1 (`plugins.cri`), 2 (`io.containerd.grpc.v1.cri`) and 3, which containerd 2
has (`io.containerd.cri.v1.runtime`). A file may import others, which win. Containerd 1 then takes
the whole section of a plugin from the last file that has it, so that a drop-in with one runtime in
it forgets `enable_cdi` of the main file; containerd 2 merges them (containerd: server/config,
`mergeConfig`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from cli.doctor.node.view import Node, UnreadableFileError

CONFIGS: Final = (
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/var/snap/microk8s/current/args/containerd.toml",
    "/etc/k0s/containerd.toml",
    "/run/k0s/containerd-cri.toml",
)
"""Where distributions have it; those of k3s and RKE2 are made anew at each of their starts."""
DEFAULT_DIRS: Final = ("/etc/cdi", "/var/run/cdi")

_PLUGINS: Final = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
_FORM_OF_2: Final = 3
_FILES_MAX: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """What the files say."""

    files: tuple[str, ...]
    section: dict[str, Any]
    """That of the CRI plugin."""
    form: int
    problems: tuple[str, ...] = ()


def find(node: Node) -> str | None:
    """Return the first of the known configuration files that is there."""
    return next((path for path in CONFIGS if node.at(path).is_file()), None)


def read(node: Node, path: str, *, major: int | None) -> Configured:
    """Read the file at *path* and what it imports; *major* is containerd's, where it is known.

    Raises `UnreadableFileError` for the main file alone.
    """
    main = node.toml(path)
    form = int(main.get("version") or 1)
    merges = form >= _FORM_OF_2 if major is None else major > 1
    section, files, problems = dict(_section(main)), [path], list[str]()
    pending = list(_imports(node, path, main))
    while pending and len(files) < _FILES_MAX:
        name = pending.pop(0)
        if name in files:
            continue
        try:
            document = node.toml(name)
        except UnreadableFileError as error:
            problems.append(str(error))
            continue
        files.append(name)
        pending += _imports(node, name, document)
        found = _section(document)
        if merges:
            _merge(section, found)
        elif found:
            section = dict(found)
    return Configured(files=tuple(files), section=section, form=form, problems=tuple(problems))


def _imports(node: Node, path: str, document: dict[str, Any]) -> Iterator[str]:
    """Yield what *document* imports; a path is relative to its own file."""
    for each in document.get("imports") or ():
        text = str(each)
        absolute = text if text.startswith("/") else str(PurePosixPath(path).parent / text)
        yield from node.matching(absolute)


def _section(document: dict[str, Any]) -> dict[str, Any]:
    plugins = document.get("plugins")
    for name in _PLUGINS:
        found = plugins.get(name) if isinstance(plugins, dict) else None
        if isinstance(found, dict):
            return found
    return {}


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        kept = into.get(key)
        if isinstance(value, dict) and isinstance(kept, dict):
            into[key] = copy = dict(kept)
            _merge(copy, value)
        elif value or isinstance(value, bool):
            into[key] = value
