"""Reads lists and watch events into no more of each object than `extender.state.reading` looks at.

An object is many kilobytes, mostly of fields that servers and controllers keep for themselves, and
making Python objects of these took nine tenths of a start. Here they are skipped, several times as
fast; what is left has the shape of the whole object. One that has an odd type somewhere is read
whole, so nothing is judged here.
"""

import json
from typing import Any, Final, TypedDict, cast

import msgspec

from hami.containers import JsonObject
from kube.reflector import Parsing


class _Metadata(TypedDict, total=False):
    name: str
    namespace: str
    uid: str
    resourceVersion: str
    annotations: dict[str, str]
    labels: dict[str, str]
    deletionTimestamp: str


class _Amounts(TypedDict, total=False):
    limits: dict[str, str]
    requests: dict[str, str]


class _Container(TypedDict, total=False):
    name: str
    resources: _Amounts
    restartPolicy: str


class _PodSpec(TypedDict, total=False):
    nodeName: str
    containers: list[_Container]
    initContainers: list[_Container]
    schedulingGroup: Any


class _Terminated(TypedDict, total=False):
    exitCode: int


class _ContainerState(TypedDict, total=False):
    terminated: _Terminated


class _ContainerStatus(TypedDict, total=False):
    name: str
    state: _ContainerState


class _PodStatus(TypedDict, total=False):
    phase: str
    initContainerStatuses: list[_ContainerStatus]


class _Pod(TypedDict, total=False):
    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus


class _NodeStatus(TypedDict, total=False):
    capacity: dict[str, str]
    allocatable: dict[str, str]


class _Node(TypedDict, total=False):
    metadata: _Metadata
    status: _NodeStatus


class _Page(msgspec.Struct, gc=False):
    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_PAGE: Final = msgspec.json.Decoder(_Page)
_EVENT: Final = msgspec.json.Decoder(_Event)


def _parsing(kind: type[Any]) -> Parsing:
    narrow = msgspec.json.Decoder(kind)

    def one(raw: msgspec.Raw) -> JsonObject:
        try:
            return cast("JsonObject", narrow.decode(raw))
        except (msgspec.DecodeError, RecursionError):
            return cast("JsonObject", json.loads(bytes(raw)))

    def page(body: bytes) -> JsonObject:
        try:
            found = _PAGE.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return cast("JsonObject", json.loads(body))
        return {"metadata": found.metadata, "items": map(one, found.items or ())}

    def event(line: bytes) -> JsonObject:
        try:
            found = _EVENT.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return cast("JsonObject", json.loads(line))
        return {"type": found.type, "object": one(found.object)}

    return Parsing(page=page, event=event)


PODS: Final = _parsing(_Pod)
NODES: Final = _parsing(_Node)
