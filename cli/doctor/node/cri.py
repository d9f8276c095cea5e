"""Asks a container runtime over its socket what it is and how it is configured.

Kubelet speaks the same API (cri-api: pkg/apis/runtime/v1/api.proto) with it. Of that only the few
fields below are needed, so they are described here and no stubs are built. What a containerd says
of its configuration is what it runs with, whatever has become of the files since.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "runtime.v1"
_SERVICE: Final = "/runtime.v1.RuntimeService"
_STRING: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_BOOL: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BOOL
_MESSAGE: Final = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_REPEATED: Final = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
_OPTIONAL: Final = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MESSAGE_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a runtime says of itself."""

    name: str
    version: str
    config: Mapping[str, Any]
    """Containerd's configuration of its CRI plugin; empty where nothing is told."""


class NotToldError(Exception):
    """Nobody answers at a socket."""


def ask(socket: Path, *, timeout_s: float) -> Told:
    """Ask the runtime at *socket*; raises `NotToldError`."""
    target = f"unix:{socket}"
    # A proxy of the environment is not for sockets, but the authority must have a form.
    options = (
        ("grpc.default_authority", "localhost"),
        ("grpc.max_receive_message_length", _MESSAGE_MAX),
    )
    try:
        with grpc.insecure_channel(target, options=options) as channel:
            version = _call(channel, "Version", timeout_s)
            status = _call(channel, "Status", timeout_s, verbose=True)
    except grpc.RpcError as error:
        # What is raised is a call, too, which its type does not say.
        details = getattr(error, "details", None)
        message = f"{socket}: {details() if details else error}"
        raise NotToldError(message) from error
    return Told(
        name=str(version.runtime_name),
        version=str(version.runtime_version),
        config=_config(dict(status.info)),
    )


def _config(info: Mapping[str, str]) -> dict[str, Any]:
    try:
        found = json.loads(info.get("config", "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _call(channel: grpc.Channel, method: str, timeout_s: float, **fields: Any) -> Any:
    request, response = message(f"{method}Request"), message(f"{method}Response")
    call = channel.unary_unary(
        f"{_SERVICE}/{method}",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    return call(request(**fields), timeout=timeout_s)


def message(name: str) -> Any:
    """Return the class of one of the messages below."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def _described() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="gpuslice/doctor/cri.proto", package=_PACKAGE, syntax="proto3"
    )
    file.message_type.add(name="VersionRequest")
    version = file.message_type.add(name="VersionResponse")
    version.field.add(name="runtime_name", number=2, type=_STRING, label=_OPTIONAL)
    version.field.add(name="runtime_version", number=3, type=_STRING, label=_OPTIONAL)
    asked = file.message_type.add(name="StatusRequest")
    asked.field.add(name="verbose", number=1, type=_BOOL, label=_OPTIONAL)
    status = file.message_type.add(name="StatusResponse")
    entry = status.nested_type.add(name="InfoEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_STRING, label=_OPTIONAL)
    entry.field.add(name="value", number=2, type=_STRING, label=_OPTIONAL)
    status.field.add(
        name="info",
        number=2,
        type=_MESSAGE,
        label=_REPEATED,
        type_name=f".{_PACKAGE}.StatusResponse.InfoEntry",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL: Final = _described()
