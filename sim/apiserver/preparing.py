"""What the server makes of an object before it is judged: owned fields are reset.

Sources: apiserver pkg/registry/rest/{create,update}.go and the strategies under
kubernetes pkg/registry. The status subresource changes the status only, the main resource all
but the status; claims and taint rules also keep their metadata on a status write, pods do not.
"""

from __future__ import annotations

import base64
import secrets
import uuid
from typing import TYPE_CHECKING

from sim.apiserver.errors import Cause, StatusError, conflict, invalid, other_identity
from sim.apiserver.json_values import timestamp
from sim.apiserver.rules.claim_status import drop_deallocated

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.resources import ResourceType

_CONFLICT = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_GENERATED_BASE_MAX = 58
_GENERATED_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SERVER_OWNED = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_KEPT_ON_UPDATE = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "uid",
)
_KEEPS_METADATA = {"devicetaintrules", "resourceclaims"}
_KEPT_ON_STATUS_WRITE = ("annotations", "finalizers", "labels", "ownerReferences")


def generated_name(base: str) -> str:
    """Return *base* cut to 58 characters with five random ones behind."""
    tail = "".join(secrets.choice(_GENERATED_ALPHABET) for _ in range(5))
    return base[:_GENERATED_BASE_MAX] + tail


def check_current(resource: ResourceType, new: JsonObject, old: JsonObject) -> None:
    """Raise 409 when *new* was made from another state, or another object, than *old*."""
    name = old["metadata"]["name"]
    for key in ("resourceVersion", "uid"):
        told = new["metadata"].get(key)
        if told and told != old["metadata"][key]:
            other = other_identity(resource.plural, told, old["metadata"])
            raise conflict(resource.qualified, name, other if key == "uid" else _CONFLICT)


def prepare_create(resource: ResourceType, obj: JsonObject, uid: str = "") -> None:
    """Give a new object its identity and take away what only the server may say."""
    metadata = obj["metadata"]
    if metadata.get("resourceVersion"):
        # The real server takes this for a failure of its own, without a reason.
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    for key in _SERVER_OWNED:
        metadata.pop(key, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"])
    metadata["uid"] = uid or str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp()
    if resource.generation:
        metadata["generation"] = 1
    if resource.status and not resource.keeps_status_on_create:
        obj.pop("status", None)
    if resource.plural == "secrets":
        _encode_strings(obj)


def prepare_update(
    resource: ResourceType, new: JsonObject, old: JsonObject, subresource: str
) -> None:
    """Reset in *new* what this (sub)resource may not change."""
    metadata, before = new["metadata"], old["metadata"]
    if not (resource.unconditional_update or metadata.get("resourceVersion")):
        why = "Invalid value: 0: must be specified for an update"
        cause = Cause(reason="FieldValueInvalid", field="metadata.resourceVersion", message=why)
        raise invalid(resource.qualified, before["name"], (cause,))
    for key in _KEPT_ON_UPDATE:
        _carry(metadata, before, key)
    if "managedFields" not in metadata:
        _carry(metadata, before, "managedFields")
    if subresource == "status":
        _keep_all_but_status(resource, new, old)
    elif resource.status:
        _carry(new, old, "status")
    if resource.plural == "resourceslices":
        _carry_taint_times(new, old)
    if resource.plural == "devicetaintrules" and not subresource:
        _restart_taint(new, old)
    if resource.plural == "secrets":
        _encode_strings(new)


def _keep_all_but_status(resource: ResourceType, new: JsonObject, old: JsonObject) -> None:
    for key in set(new) | set(old):
        if key not in {"status", "metadata", "apiVersion", "kind"}:
            _carry(new, old, key)
    if resource.plural in _KEEPS_METADATA:
        for key in _KEPT_ON_STATUS_WRITE:
            _carry(new["metadata"], old["metadata"], key)
    if resource.plural == "resourceclaims":
        drop_deallocated(new, old)


def _carry(new: JsonObject, old: JsonObject, key: str) -> None:
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


def _carry_taint_times(new: JsonObject, old: JsonObject) -> None:
    """Keep the time at which a taint was added when it is merely repeated."""
    known = {
        (device["name"], taint.get("key"), taint.get("value"), taint.get("effect")): taint
        for device in old["spec"].get("devices", ())
        for taint in device.get("taints", ())
    }
    for device in new["spec"].get("devices", ()):
        for taint in device.get("taints", ()):
            key = (device.get("name"), taint.get("key"), taint.get("value"), taint.get("effect"))
            if "timeAdded" not in taint and key in known:
                taint["timeAdded"] = known[key]["timeAdded"]


def _restart_taint(new: JsonObject, old: JsonObject) -> None:
    """Let the time of a rule's taint be that of its effect, unless the client says another."""
    taint, before = new.get("spec", {}).get("taint", {}), old["spec"]["taint"]
    changed = taint.get("effect") != before.get("effect")
    if changed and taint.get("timeAdded") == before.get("timeAdded"):
        taint.pop("timeAdded", None)


def _encode_strings(secret: JsonObject) -> None:
    for key, text in secret.pop("stringData", {}).items():
        encoded = base64.b64encode(str(text).encode()).decode()
        secret.setdefault("data", {})[key] = encoded
