"""What this runtime makes of CDI devices, in the words of an OCI spec, so that it can be compared.

Only what CDI can change is told; whatever is empty is left out, as Go's encoder does it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.runtime.cdi import Registry, resolve, scan
from sim.runtime.container import DeviceView, HookView, MountView
from sim.runtime.errors import InjectionError, UnresolvableDevicesError
from sim.runtime.inject import Draft, apply

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a container with certain CDI devices comes to."""

    known: tuple[str, ...]
    """All devices of the directories, sorted."""
    refused: tuple[str, ...]
    """Names of files that cannot be used, or not wholly, sorted."""
    unresolved: tuple[str, ...] = ()
    failed: bool = False
    """Whether the devices are there and cannot be injected."""
    container: JsonObject | None = None


def answer(
    directories: Sequence[Path], devices: Sequence[str], *, host_root: Path, start: JsonObject
) -> Answer:
    """Return what our runtime makes of *devices* in a container that is *start* without them."""
    registry = scan(directories)
    draft = _draft(start, host_root)
    try:
        edits = resolve(registry, devices)
        apply(draft, edits)
    except UnresolvableDevicesError as error:
        return _answer(registry, unresolved=error.names)
    except InjectionError:
        return _answer(registry, failed=True)
    return _answer(registry, container=told(draft))


def told(draft: Draft) -> JsonObject:
    """Return what CDI could have changed in *draft*, as an OCI spec says it."""
    hooks: dict[str, list[JsonObject]] = {}
    for hook in draft.hooks:
        hooks.setdefault(hook.hook_name, []).append(_hook(hook))
    rdt = draft.intel_rdt
    return _filled(
        {
            "env": [f"{key}={value}" for key, value in draft.env.items()],
            "additionalGids": draft.additional_gids,
            "mounts": [_mount(one) for one in draft.mounts],
            "hooks": hooks,
            "devices": [_device(one) for one in draft.devices],
            "rules": [
                _filled({"type": one.type, "access": one.access})
                | {"allow": True, "major": one.major, "minor": one.minor}
                for one in draft.device_rules
            ],
            "netDevices": {host: {"name": name} for host, name in draft.net_devices.items()},
            "intelRdt": None if rdt is None else _rdt(rdt.model_dump(by_alias=True)),
        }
    )


def of_library(spec: JsonObject) -> JsonObject:
    """Return the same of an OCI spec that the CDI library has changed."""
    process, linux = spec.get("process", {}), spec.get("linux", {})
    mounts = [{**one, "type": one.get("type", "")} for one in spec.get("mounts", [])]
    return _filled(
        {
            "env": process.get("env"),
            "additionalGids": process.get("user", {}).get("additionalGids"),
            "mounts": [_filled(one) for one in mounts],
            "hooks": spec.get("hooks"),
            "devices": linux.get("devices"),
            "rules": linux.get("resources", {}).get("devices"),
            "netDevices": linux.get("netDevices"),
            "intelRdt": linux.get("intelRdt"),
        }
    )


def oci(start: JsonObject) -> JsonObject:
    """Return the OCI spec of a container with the `env`, `mounts` and `devices` of *start*."""
    return {
        "ociVersion": "1.2.0",
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": start.get("env", [])},
        "mounts": start.get("mounts", []),
        "linux": {"devices": start.get("devices", [])},
    }


def _draft(start: JsonObject, host_root: Path) -> Draft:
    return Draft(
        host_root=host_root,
        env=dict(text.split("=", 1) for text in start.get("env", [])),
        mounts=[
            MountView(
                container_path=one["destination"],
                host_path=one["source"],
                type=one.get("type", ""),
                options=tuple(one.get("options", ())),
            )
            for one in start.get("mounts", [])
        ],
        devices=[DeviceView(host_path=one["path"], **one) for one in start.get("devices", [])],
    )


def _answer(registry: Registry, **rest: Any) -> Answer:
    return Answer(
        known=tuple(sorted(registry.devices)),
        refused=tuple(sorted(path.name for path in registry.errors)),
        **rest,
    )


def _filled(members: Mapping[str, Any]) -> JsonObject:
    return {key: value for key, value in members.items() if value}


def _hook(hook: HookView) -> JsonObject:
    told = _filled({"path": hook.path, "args": list(hook.args), "env": list(hook.env)})
    return told if hook.timeout_s is None else {**told, "timeout": hook.timeout_s}


def _mount(mount: MountView) -> JsonObject:
    return _filled(
        {
            "destination": mount.container_path,
            "source": mount.host_path,
            "type": mount.type,
            "options": list(mount.options),
        }
    )


def _device(device: DeviceView) -> JsonObject:
    numbers = {"major": device.major, "minor": device.minor}
    owned = {"fileMode": device.file_mode, "uid": device.uid, "gid": device.gid}
    given = {key: value for key, value in owned.items() if value is not None}
    return {"path": device.path, "type": device.type, **numbers, **given}


def _rdt(rdt: JsonObject) -> JsonObject:
    return _filled({key: list(one) if isinstance(one, tuple) else one for key, one in rdt.items()})
