"""Find CDI devices in spec directories as the CDI library does it.

Directories come in order of rising priority (`/etc/cdi`, then `/var/run/cdi`). A device of a
higher directory hides one of a lower; two at the same priority take each other away for
everybody, whatever a lower directory defines. A broken file loses only itself. Only `.json` and
`.yaml` files directly in a directory count, hidden ones too. A directory that is there and cannot
be read ends the search, and the directories after it are not looked at.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from sim.runtime.errors import SpecError, UnresolvableDevicesError
from sim.runtime.spec import Device, Edits, Spec, parse
from sim.runtime.text import decode

log = structlog.get_logger(__name__)

_SUFFIXES: Final = (".json", ".yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Where a device is defined."""

    path: Path
    priority: int
    spec: Spec
    device: Device


@dataclass(slots=True)
class Registry:
    """The devices of all directories at one moment, by qualified name."""

    devices: dict[str, Definition] = field(default_factory=dict)
    errors: dict[Path, list[str]] = field(default_factory=dict)

    def blame(self, path: Path, reason: str) -> None:
        """Note that the file at *path* is not, or not wholly, in use."""
        self.errors.setdefault(path, []).append(reason)
        log.warning("cdi spec refused", path=str(path), reason=reason)


def scan(directories: Sequence[Path]) -> Registry:
    """Read all spec files of *directories*, the last having the highest priority."""
    registry = Registry()
    conflicts: set[str] = set()
    for priority, directory in enumerate(directories):
        try:
            paths = _spec_files(directory)
        except OSError as error:
            log.warning("cdi directory not read", path=str(directory), error=str(error))
            break
        for path in paths:
            try:
                spec = parse(decode(path.read_bytes()))
            except (OSError, SpecError) as error:
                registry.blame(path, str(error))
                continue
            _register(registry, conflicts, _definitions(spec, path, priority))
    for name in conflicts:
        del registry.devices[name]
    return registry


def resolve(registry: Registry, names: Sequence[str]) -> list[Edits]:
    """Return the edits for *names* in order of application; raise `UnresolvableDevicesError`."""
    unknown = [name for name in names if name not in registry.devices]
    if unknown:
        raise UnresolvableDevicesError(unknown)
    edits: list[Edits] = []
    seen: set[Path] = set()
    for name in names:
        found = registry.devices[name]
        if found.path not in seen:
            seen.add(found.path)
            edits.append(found.spec.container_edits)
        edits.append(found.device.container_edits)
    return edits


def _spec_files(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            names = [one.name for one in entries if not one.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return [directory / name for name in sorted(names) if name.endswith(_SUFFIXES)]


def _definitions(spec: Spec, path: Path, priority: int) -> dict[str, Definition]:
    return {
        f"{spec.kind}={device.name}": Definition(
            path=path, priority=priority, spec=spec, device=device
        )
        for device in spec.devices
    }


def _register(registry: Registry, conflicts: set[str], found: dict[str, Definition]) -> None:
    for name, definition in found.items():
        old = registry.devices.get(name)
        if old is not None and old.priority == definition.priority:
            conflicts.add(name)
            reason = f"conflicting device {name} ({old.path.name}, {definition.path.name})"
            registry.blame(old.path, reason)
            registry.blame(definition.path, reason)
            continue
        registry.devices[name] = definition
