"""A CDI spec: read as strictly as the runtime's library reads it, written in one canonical form.

The library loses only the broken file when it meets one, but then every container that names
a device of it fails to start; so what we write is held against the same rules first.
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from cdi.canonical import canonical_edits
from cdi.edits import (
    ContainerEdits,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
)
from cdi.errors import SpecError
from cdi.names import is_device_name, is_kind
from cdi.version import KNOWN, minimum_version, rank
from cdi.wire import Part, Text, read_json

__all__ = [
    "ContainerEdits",
    "Device",
    "DeviceNode",
    "Hook",
    "IntelRdt",
    "Mount",
    "NetDevice",
    "Spec",
    "canonical",
    "render",
]


def _kind(text: str) -> str:
    if not is_kind(text):
        raise ValueError("has to be vendor/class")
    return text


def _device_name(text: str) -> str:
    if not is_device_name(text):
        raise ValueError("is no device name")
    return text


def _version(text: str) -> str:
    if rank(text) is None:
        reason = f"`{text}` is not one of {', '.join(KNOWN)}"
        raise ValueError(reason)
    return text


class Device(Part):
    """One name that a container can ask for, and what it gets."""

    name: Annotated[Text, AfterValidator(_device_name)]
    annotations: dict[Text, Text] = Field(default={})
    container_edits: ContainerEdits = ContainerEdits()

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.container_edits.is_empty():
            raise ValueError("containerEdits has to ask for something")
        return self


class Spec(Part):
    """One file: devices of one kind, and the edits that come once with any of them."""

    cdi_version: Annotated[Text, AfterValidator(_version)]
    kind: Annotated[Text, AfterValidator(_kind)]
    annotations: dict[Text, Text] = Field(default={})
    devices: tuple[Device, ...] = ()
    container_edits: ContainerEdits = ContainerEdits()

    @model_validator(mode="after")
    def _check_devices(self) -> Self:
        if not self.devices:
            raise ValueError("devices has to name at least one")
        names = [device.name for device in self.devices]
        if len(set(names)) != len(names):
            raise ValueError("a device is named twice")
        return self

    @model_validator(mode="after")
    def _check_version(self) -> Self:
        needed = minimum_version(self)
        declared = rank(self.cdi_version)
        if declared is None or declared < KNOWN.index(needed):
            reason = f"cdiVersion is {self.cdi_version}, the content needs {needed}"
            raise ValueError(reason)
        return self

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a JSON document; SpecError names the first thing that the library would refuse."""
        document = read_json(data)
        try:
            return cls.model_validate(document, by_alias=True, by_name=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(str(step) for step in first["loc"])
            raise SpecError(field, first["msg"].removeprefix("Value error, ")) from error


def canonical(spec: Spec) -> Spec:
    """Return *spec* in the one form of all specs that mean the same."""
    devices = sorted(spec.devices, key=lambda device: device.name)
    return spec.model_copy(
        update={
            "annotations": dict(sorted(spec.annotations.items())),
            "devices": tuple(_canonical_device(device) for device in devices),
            "container_edits": canonical_edits(spec.container_edits),
        }
    )


def _canonical_device(device: Device) -> Device:
    return device.model_copy(
        update={
            "annotations": dict(sorted(device.annotations.items())),
            "container_edits": canonical_edits(device.container_edits),
        }
    )


def render(spec: Spec) -> bytes:
    """Return *spec* as canonical JSON with a line feed: equal meaning, equal bytes.

    Keys stand in the order of the specification, and those without a value are left out.
    """
    text = canonical(spec).model_dump_json(by_alias=True, exclude_defaults=True)
    return text.encode() + b"\n"
