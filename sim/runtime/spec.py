"""CDI spec files as a runtime reads them: strictly, so that one unknown key loses the file.

The rules are those of the CDI library's `pkg/cdi` and `specs-go` at v1.1.0. Names of keys are
matched exactly, where Go's decoder would ignore case: what we write ourselves must be exact.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from sim.runtime.errors import SpecError

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

Text = Annotated[str, Field(min_length=1)]
EnvText = Annotated[str, Field(pattern=r"(?s)^[^=]+=")]
Uint32 = Annotated[int, Field(ge=0, lt=2**32)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class DeviceNode(_Strict):
    """A device node to make in the container."""

    path: Text
    host_path: str = ""
    type: Literal["", "b", "c", "u", "p"] = ""
    major: int = 0
    minor: int = 0
    file_mode: Uint32 | None = None
    permissions: Annotated[str, Field(pattern=r"^[rwm]*$")] = ""
    uid: Uint32 | None = None
    gid: Uint32 | None = None


class Mount(_Strict):
    """A mount to make in the container."""

    host_path: Text
    container_path: Text
    options: tuple[str, ...] = Field(default=(), strict=False)
    type: str = ""


class Hook(_Strict):
    """An OCI hook; this runtime shows it and never runs it."""

    hook_name: Literal[
        "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"
    ]
    path: Text
    args: tuple[str, ...] = Field(default=(), strict=False)
    env: tuple[EnvText, ...] = Field(default=(), strict=False)
    timeout: Annotated[int, Field(ge=0)] | None = None


class IntelRdt(_Strict):
    """Cache and bandwidth settings: read for the version rule, otherwise of no use here."""

    clos_id: str = Field(default="", alias="closID")
    l3_cache_schema: str = Field(default="", alias="l3CacheSchema")
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] | None = Field(default=None, strict=False)
    enable_monitoring: bool = False


class NetDevice(_Strict):
    """A host network interface to move: read for the version rule, otherwise of no use here."""

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

    name: Annotated[str, Field(pattern=_DEVICE)]
    annotations: dict[str, str] = {}
    container_edits: Edits


class Spec(_Strict):
    """One spec file."""

    cdi_version: str
    kind: Annotated[str, Field(pattern=rf"^{_WORD}/{_WORD}$")]
    annotations: dict[str, str] = {}
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


def _without_nulls(value: Any) -> Any:
    """Drop null members: Go's decoder takes null for "not set" everywhere."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _check_devices(spec: Spec) -> None:
    seen: set[str] = set()
    for device in spec.devices:
        if device.name in seen:
            message = f"device {device.name!r} is defined twice"
            raise SpecError(message)
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
    """Return the lowest version whose readers understand everything in *spec*."""
    edits = [spec.container_edits, *(device.container_edits for device in spec.devices)]
    class_name = spec.kind.partition("/")[2]
    annotated = bool(spec.annotations) or any(device.annotations for device in spec.devices)
    found = ["0.3.0", *(_needed_by_edits(edit) for edit in edits)]
    if annotated or "." in class_name:
        found.append("0.6.0")
    if any(device.name[0].isdigit() for device in spec.devices):
        found.append("0.5.0")
    return max(found, key=_VERSIONS.index)


def _needed_by_edits(edits: Edits) -> str:
    rdt = edits.intel_rdt
    if edits.net_devices or (rdt and (rdt.schemata is not None or rdt.enable_monitoring)):
        return "1.1.0"
    if rdt or edits.additional_gids:
        return "0.7.0"
    if any(node.host_path for node in edits.device_nodes):
        return "0.5.0"
    if any(mount.type for mount in edits.mounts):
        return "0.4.0"
    return "0.3.0"
