"""What is kept of each object that the webhook watches.

A cluster has many pods and claims, and all of them are held in memory by each replica. So only
what quota, guards and templates ask for is kept, in the shape that it has in the object; and what
is the same in many of them, such as the containers of the pods of one Deployment, is kept once.
So nobody may change anything in them. Raising `UnwantedError` leaves an object out.
"""

import json
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from gpu.names import DRIVER
from kube.objects import JsonObject
from kube.store import UnwantedError
from webhook.requestannotation import LABEL, LABEL_VALUE
from webhook.templatecontent import is_template_name

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "gpuslice"

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NOTE_MAX: Final = 2048
_SHARED_MAX: Final = 4096
_OWN_NOTES: Final = ("gpuslice.io/", "hami.io/")
_SECTIONS: Final = ("initContainers", "containers")
_METADATA: Final = (
    *("name", "namespace", "uid", "resourceVersion", "generateName"),
    *("creationTimestamp", "deletionTimestamp", "labels", "ownerReferences"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A ResourceClaimTemplate with a name like ours, whoever made it, or for devices of ours."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    is_labelled: bool
    is_leaving: bool
    is_named_like_ours: bool
    claim_spec: JsonObject
    """What its claims are made of, trimmed where the name is another.

    With metadata of their own it is not what ours look like."""


def labels_of(item: JsonObject) -> dict[str, str]:
    """Keep the labels."""
    return dict(item["metadata"].get("labels") or {})


def quota(item: JsonObject) -> JsonObject:
    """Keep a ResourceQuota but for notes of those who wrote it."""
    metadata = _metadata(item) | {"annotations": _notes(item)}
    return {"metadata": metadata, **_picked(item, "spec", "status")}


def templates_of(classes: Collection[str]) -> Callable[[JsonObject], Template]:
    """Return what keeps templates with names like ours, and those that ask for *classes*."""

    def template(item: JsonObject) -> Template:
        metadata, spec = item["metadata"], item["spec"]
        is_named_like_ours = is_template_name(metadata["name"])
        content = spec.get("spec") or {}
        if not is_named_like_ours:
            if _classes(content).isdisjoint(classes):
                raise UnwantedError
            content = _claim_spec(content)
        elif extra := spec.get("metadata"):
            content = {"metadata": extra, "spec": content}
        return Template(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            resource_version=metadata.get("resourceVersion", ""),
            is_labelled=(metadata.get("labels") or {}).get(MANAGED_BY) == MANAGER,
            is_leaving="deletionTimestamp" in metadata,
            is_named_like_ours=is_named_like_ours,
            claim_spec=content,
        )

    return template


def claims_of(classes: Collection[str]) -> Callable[[JsonObject], JsonObject]:
    """Return what keeps the claims that ask for one of *classes* or hold a device of ours."""

    def claim(item: JsonObject) -> JsonObject:
        spec = item.get("spec")
        status = item.get("status") or {}
        allocation = status.get("allocation") or {}
        results = _devices(allocation).get("results") or ()
        is_held = any(each.get("driver") == DRIVER for each in results)
        if not is_held and _classes(spec).isdisjoint(classes):
            raise UnwantedError
        kept: JsonObject = {}
        if "allocation" in status:
            kept["allocation"] = {"devices": {"results": [_result(each) for each in results]}}
        if "reservedFor" in status:
            kept["reservedFor"] = status["reservedFor"]
        return {
            "metadata": _metadata(item) | {"annotations": _notes(item)},
            "spec": _claim_spec(spec),
            "status": kept,
        }

    return claim


def is_translated(pod: JsonObject) -> bool:
    """Tell whether *pod* has the label of those whose requests have become claims."""
    return bool((pod["metadata"].get("labels") or {}).get(LABEL) == LABEL_VALUE)


def pods_asking(keys: Collection[str]) -> Callable[[JsonObject], JsonObject]:
    """Return what keeps translated pods and those that ask for one of the resources *keys*."""

    def asking(item: JsonObject) -> JsonObject:
        if not is_translated(item) and _resources(item).isdisjoint(keys):
            raise UnwantedError
        return pod(item)

    return asking


def pod(item: JsonObject) -> JsonObject:
    """Keep what a pod asks for and how far it is."""
    spec, status = item["spec"], item.get("status") or {}
    kept = _picked(spec, "nodeName")
    if "resourceClaims" in spec:
        kept["resourceClaims"] = _shared(spec["resourceClaims"])
    for section in _SECTIONS:
        if section in spec:
            kept[section] = _shared(
                [_picked(each, "name", "restartPolicy", "resources") for each in spec[section]]
            )
    told = _picked(status, "phase", "resourceClaimStatuses")
    if statuses := status.get("initContainerStatuses"):
        told["initContainerStatuses"] = [_picked(each, "name", "state") for each in statuses]
    return {
        "metadata": _metadata(item) | {"annotations": _notes(item)},
        "spec": kept,
        "status": told,
    }


def _metadata(item: JsonObject) -> JsonObject:
    kept = _picked(item["metadata"], *_METADATA)
    if "labels" in kept:
        kept["labels"] = _shared(kept["labels"])
    return kept


def _notes(item: JsonObject) -> dict[str, str]:
    """Return the annotations but for what somebody stores there at length."""
    notes = item["metadata"].get("annotations") or {}
    return {
        sys.intern(key): sys.intern(text)
        for key, text in notes.items()
        if key != _LAST_APPLIED and (len(text) <= _NOTE_MAX or key.startswith(_OWN_NOTES))
    }


def _resources(item: JsonObject) -> set[str]:
    return {
        name
        for section in _SECTIONS
        for container in item["spec"].get(section) or ()
        for kind in ("limits", "requests")
        for name in (container.get("resources") or {}).get(kind) or ()
    }


def _devices(holder: Any) -> JsonObject:
    found: JsonObject = (holder or {}).get("devices") or {}
    return found


def _classes(spec: Any) -> set[str]:
    """Return the DeviceClasses that a claim of *spec* asks for."""
    return {
        option["deviceClassName"]
        for request in _devices(spec).get("requests") or ()
        for option in _options(request)
        if "deviceClassName" in option
    }


def _claim_spec(spec: Any) -> JsonObject:
    """Keep what a claim asks for, and whether its limits are lifted."""
    devices = _devices(spec)
    kept: JsonObject = {"requests": [_request(each) for each in devices.get("requests") or ()]}
    if configs := [_config(each) for each in devices.get("config") or () if _is_own(each)]:
        kept["config"] = configs
    shared: JsonObject = _shared({"devices": kept})
    return shared


def _is_own(entry: JsonObject) -> bool:
    return bool((entry.get("opaque") or {}).get("driver") == DRIVER)


def _config(entry: JsonObject) -> JsonObject:
    parameters = _picked(entry["opaque"].get("parameters") or {}, "enforcement")
    opaque = {"driver": DRIVER, "parameters": parameters}
    return {**_picked(entry, "requests"), "opaque": opaque}


def _options(request: JsonObject) -> Iterator[JsonObject]:
    if "exactly" in request:
        yield request["exactly"]
    yield from request.get("firstAvailable") or ()


def _request(request: JsonObject) -> JsonObject:
    kept = _picked(request, "name")
    if "exactly" in request:
        kept["exactly"] = _option(request["exactly"])
    if "firstAvailable" in request:
        kept["firstAvailable"] = [_option(each) for each in request["firstAvailable"]]
    return kept


def _option(option: JsonObject) -> JsonObject:
    return _picked(
        option, "name", "deviceClassName", "allocationMode", "count", "adminAccess", "capacity"
    )


def _result(result: JsonObject) -> JsonObject:
    return _picked(
        result,
        *("request", "driver", "pool", "device", "adminAccess", "shareID", "consumedCapacity"),
    )


def _shared(part: Any) -> Any:
    """Return *part*, or an equal one that is kept already."""
    return _parsed(json.dumps(part, separators=(",", ":")))


@lru_cache(maxsize=_SHARED_MAX)
def _parsed(text: str) -> Any:
    return json.loads(text)


def _picked(holder: JsonObject, *keys: str) -> JsonObject:
    return {key: holder[key] for key in keys if key in holder}
