"""CDI spec files as a runtime reads them: strictly, so that one unknown key loses the file.

The rules are those of the CDI library's `pkg/cdi` at v1.1.2 and `specs-go` at v1.1.1. Text may be
written as a number or a truth value, whole numbers lose what stands behind their point, and what
is null counts as not there.
"""

import math
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from sim.runtime.errors import SpecError
from sim.runtime.text import Real, Whole

_VERSIONS: Final = (
    "0.3.0",
    "0.4.0",
    "0.5.0",
    "0.6.0",
    "0.7.0",
    "0.8.0",
    "1.0.0",
    "1.1.0",
)
_WORD: Final = r"[A-Za-z]([A-Za-z0-9_.\-]*[A-Za-z0-9])?"
_DEVICE: Final = r"^[A-Za-z0-9]([A-Za-z0-9_.:\-]*[A-Za-z0-9])?$"

_POINTERS: Final = ("deviceNodes", "mounts", "hooks", "netDevices")
_CLASS_NAME_BYTES: Final = 4096


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Whole | Real):
        return value.literal
    return str(value) if isinstance(value, int | float) else value


def _as_whole(value: object) -> object:
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


def _class_of_service(name: str) -> str:
    """Check the name of a directory below resctrl; `/` is its root."""
    long = len(name.encode()) >= _CLASS_NAME_BYTES
    if name != "/" and (long or name in {".", ".."} or "/" in name or "\n" in name):
        message = "not the name of a class of service"
        raise ValueError(message)
    return name


AnyText = Annotated[str, BeforeValidator(_as_text)]
Text = Annotated[AnyText, Field(min_length=1)]
EnvText = Annotated[AnyText, Field(pattern=r"(?s)^[^=]+=")]
_Whole = Annotated[int, BeforeValidator(_as_whole)]
Uint32 = Annotated[_Whole, Field(ge=0, lt=2**32)]
Int64 = Annotated[_Whole, Field(ge=-(2**63), lt=2**63)]
Number = Annotated[_Whole, Field(ge=0, lt=2**63)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class DeviceNode(_Strict):
    """A device node to make in the container."""

    path: Text
    host_path: AnyText = ""
    type: Literal["", "b", "c", "u", "p"] = ""
    major: Number = 0
    minor: Number = 0
    file_mode: Uint32 | None = None
    permissions: Annotated[str, Field(pattern=r"^([rwm]*|none)$")] = ""
    uid: Uint32 | None = None
    gid: Uint32 | None = None


class Mount(_Strict):
    """A mount to make in the container."""

    host_path: Text
    container_path: Text
    options: tuple[AnyText, ...] = Field(default=(), strict=False)
    type: AnyText = ""


class Hook(_Strict):
    """An OCI hook; this runtime shows it and never runs it."""

    hook_name: Literal[
        "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"
    ]
    path: Text
    args: tuple[AnyText, ...] = Field(default=(), strict=False)
    env: tuple[EnvText, ...] = Field(default=(), strict=False)
    timeout: Int64 | None = None


class IntelRdt(_Strict):
    """Cache and bandwidth settings."""

    clos_id: Annotated[AnyText, AfterValidator(_class_of_service)] = Field(
        default="", alias="closID"
    )
    l3_cache_schema: AnyText = Field(default="", alias="l3CacheSchema")
    mem_bw_schema: AnyText = ""
    schemata: tuple[AnyText, ...] | None = Field(default=None, strict=False)
    enable_monitoring: bool = False


class NetDevice(_Strict):
    """A host network interface to move into the container."""

    host_interface_name: Text
    name: Text


class Edits(_Strict):
    """What one device, or a whole file, changes in a container."""

    env: tuple[EnvText, ...] = Field(default=(), strict=False)
    device_nodes: tuple[DeviceNode, ...] = Field(default=(), strict=False)
    hooks: tuple[Hook, ...] = Field(default=(), strict=False)
    mounts: tuple[Mount, ...] = Field(default=(), strict=False)
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[Uint32, ...] = Field(default=(), strict=False)
    net_devices: tuple[NetDevice, ...] = Field(default=(), strict=False)

    def empty(self) -> bool:
        """Tell whether nothing at all is edited."""
        return self == Edits()


class Device(_Strict):
    """One device of a spec file."""

    name: Annotated[AnyText, Field(pattern=_DEVICE)]
    annotations: dict[str, AnyText] = {}
    container_edits: Edits


class Spec(_Strict):
    """One spec file."""

    cdi_version: AnyText
    kind: Annotated[str, Field(pattern=rf"^{_WORD}/{_WORD}$")]
    annotations: dict[str, AnyText] = {}
    devices: Annotated[tuple[Device, ...], Field(min_length=1, strict=False)]
    container_edits: Edits = Edits()


def parse(document: object) -> Spec:
    """Return the spec in *document*, a decoded JSON or YAML file; raise `SpecError`."""
    if not isinstance(document, dict):
        message = "a spec file holds one object"
        raise SpecError(message)
    try:
        spec = Spec.model_validate(_without_nulls(document))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        message = f"{place}: {first['msg']}"
        raise SpecError(message) from error
    _check_devices(spec)
    _check_version(spec)
    return spec


def _without_nulls(value: Any, key: str = "") -> Any:
    """Drop nulls, which Go's decoder takes for "not set", but where a list holds pointers.

    There the library fails for want of a device node, a mount, a hook or a network device, or dies.
    """
    if isinstance(value, dict):
        return {
            name: _without_nulls(item, name) for name, item in value.items() if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None or key in _POINTERS]
    return value


def _check_net_devices(edits: Edits) -> None:
    """Check that neither a host interface nor a name in the container is there twice."""
    for names in (
        [one.host_interface_name for one in edits.net_devices],
        [one.name for one in edits.net_devices],
    ):
        if len(set(names)) != len(names):
            message = f"net device among {', '.join(names)} is defined twice"
            raise SpecError(message)


def _check_devices(spec: Spec) -> None:
    _check_net_devices(spec.container_edits)
    seen: set[str] = set()
    for device in spec.devices:
        if device.name in seen:
            message = f"device {device.name!r} is defined twice"
            raise SpecError(message)
        _check_net_devices(device.container_edits)
        if device.container_edits.empty():
            message = f"device {device.name!r} has empty edits"
            raise SpecError(message)
        seen.add(device.name)


def _check_version(spec: Spec) -> None:
    declared = spec.cdi_version.removeprefix("v")
    if declared not in _VERSIONS:
        message = f"unknown CDI version {spec.cdi_version!r}"
        raise SpecError(message)
    needed = minimum_version(spec)
    if _VERSIONS.index(declared) < _VERSIONS.index(needed):
        message = f"version {declared} is declared but {needed} is needed"
        raise SpecError(message)


def minimum_version(spec: Spec) -> str:
    """Return the lowest version that the library lets *spec* declare.

    Of all devices but the last one the library misses `hostPath` and a mount's `type`: its loop
    keeps one variable, as Go did before 1.22 and still does for modules that say so.
    """
    edits = [spec.container_edits, *(device.container_edits for device in spec.devices)]
    looked_at = [spec.container_edits, spec.devices[-1].container_edits]
    class_name = spec.kind.partition("/")[2]
    annotated = bool(spec.annotations) or any(device.annotations for device in spec.devices)
    found = [
        "0.3.0",
        *(_needed_by_edits(edit) for edit in edits),
        *(_needed_by_paths(edit) for edit in looked_at),
    ]
    if annotated or "." in class_name:
        found.append("0.6.0")
    if any(device.name[0].isdigit() for device in spec.devices):
        found.append("0.5.0")
    return max(found, key=_VERSIONS.index)


def _needed_by_edits(edits: Edits) -> str:
    rdt = edits.intel_rdt
    if edits.net_devices or (rdt and (rdt.schemata is not None or rdt.enable_monitoring)):
        return "1.1.0"
    return "0.7.0" if rdt or edits.additional_gids else "0.3.0"


def _needed_by_paths(edits: Edits) -> str:
    if any(node.host_path for node in edits.device_nodes):
        return "0.5.0"
    return "0.4.0" if any(mount.type for mount in edits.mounts) else "0.3.0"
