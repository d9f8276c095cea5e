"""Claims for extended resources that device classes stand for (KEP-5004).

A container that asks for such a resource the old way, as a number in its resources, gets devices
through a claim that the scheduler makes, but only on nodes whose device plugins do not offer the
resource. Init containers use the devices of the containers after them before they need their own,
and the same ones after each other (kubernetes:
pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kube.objects import JsonObject
from sim.scheduler.amounts import parse

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""Every class answers to this with its own name behind it."""
_UNIT: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """The claim that a pod needs on one node, and which request serves which container."""

    claim: JsonObject
    mappings: tuple[JsonObject, ...]


class _Need(NamedTuple):
    """A number of devices in a request of that name."""

    request: str
    number: int


def classes_by_resource(classes: Mapping[str, JsonObject]) -> dict[str, str]:
    """Return the class behind each resource: the newest, and of equally old ones the first."""
    found = {f"{IMPLICIT}{name}": name for name in classes}
    for name in sorted(classes, key=lambda each: (_created(classes[each]), _Reversed(each))):
        resource = (classes[name].get("spec") or {}).get("extendedResourceName")
        if resource:
            found[resource] = name
    return found


def asked_of_classes(pod: JsonObject, classes: Mapping[str, JsonObject]) -> dict[str, str]:
    """Return the class behind each resource that *pod* asks for and that a class stands for."""
    spec = pod["spec"]
    asked: set[str] = set()
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        asked.update(_asked(container))
    if not any("/" in resource for resource in asked):
        return {}
    known = classes_by_resource(classes)
    return {resource: known[resource] for resource in asked & known.keys()}


def extended(pod: JsonObject, node: JsonObject, by_resource: Mapping[str, str]) -> Extended | None:
    """Return what *pod* needs on *node* in place of a device plugin, or nothing."""
    requests: list[JsonObject] = []
    mappings: list[JsonObject] = []
    for resource in sorted(by_resource):
        if offers(node, resource):
            continue
        needs, used_by = _needs(pod["spec"], resource)
        for need in needs:
            exactly = {"deviceClassName": by_resource[resource], "allocationMode": "ExactCount"}
            requests.append({"name": need.request, "exactly": {**exactly, "count": need.number}})
        mappings += used_by
    if not requests:
        return None
    requests.sort(key=lambda request: str(request["name"]))
    return Extended(claim=_claim(pod, requests), mappings=tuple(mappings))


def offers(node: JsonObject, resource: str) -> bool:
    """Tell whether a device plugin of *node* has any of *resource*."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return parse(str(allocatable.get(resource, "0"))).nanos != 0


class _Reversed(str):
    """A text that sorts the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _created(item: JsonObject) -> str:
    return str((item.get("metadata") or {}).get("creationTimestamp") or "")


def _needs(spec: JsonObject, resource: str) -> tuple[list[_Need], list[JsonObject]]:
    init = list(spec.get("initContainers") or ())
    containers = [*init, *(spec.get("containers") or ())]
    lasting: list[_Need | None] = [None] * len(containers)
    mappings: list[JsonObject] = []
    brief: list[tuple[int, JsonObject]] = []
    for index, container in enumerate(containers):
        if index < len(init) and container.get("restartPolicy") != "Always":
            brief.append((index, container))
        elif need := _need(index, container, resource):
            lasting[index] = need
            mappings.append(_mapping(container, resource, need.request))
    own: list[_Need] = []
    shared: list[tuple[JsonObject, str]] = []
    for index, container in brief:
        later = [each for each in lasting[index:] if each]
        need, reused = _beside(_need(index, container, resource), later)
        shared += [(container, name) for name in reused]
        if need:
            own.append(need)
            shared.append((container, need.request))
    largest = max(own, key=lambda each: each.number, default=None)
    mine = {each.request for each in own}
    for container, name in shared:
        mappings.append(
            _mapping(container, resource, largest.request if largest and name in mine else name)
        )
    return [each for each in (largest, *lasting) if each], mappings


def _beside(need: _Need | None, later: list[_Need]) -> tuple[_Need | None, list[str]]:
    """Return what is left of *need* after the devices of *later* requests, and those used."""
    reused: list[str] = []
    if need is None:
        return None, reused
    missing = need.number
    for other in later:
        reused.append(other.request)
        missing -= other.number
        if missing <= 0:
            return None, reused
    return _Need(need.request, missing), reused


def _need(index: int, container: JsonObject, resource: str) -> _Need | None:
    asked = _asked(container)
    count = parse(str(asked.get(resource, "0"))).nanos // _UNIT
    if not count:
        return None
    return _Need(f"container-{index}-request-{sorted(asked).index(resource)}", count)


def _asked(container: JsonObject) -> JsonObject:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _mapping(container: JsonObject, resource: str, request: str) -> JsonObject:
    return {
        "containerName": container["name"],
        "resourceName": resource,
        "requestName": request,
    }


def _claim(pod: JsonObject, requests: list[JsonObject]) -> JsonObject:
    metadata = pod["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            # The name it has until it is made.
            "name": "<extended-resources>",
            "generateName": f"{metadata['name']}-extended-resources-",
            "namespace": metadata["namespace"],
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }
