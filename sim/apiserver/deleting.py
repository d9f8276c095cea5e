"""What a DELETE means for one object: gone, marked, or still the same.

Finalizers hold an object; a bound pod that may still run is held by its grace period until
its kubelet deletes it with grace 0 (kubernetes: pkg/registry/core/pod/strategy.go,
apiserver: pkg/registry/rest/delete.go). A namespace is held by `spec.finalizers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.apiserver.errors import conflict
from sim.apiserver.json_values import copy_json, timestamp

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.requests import Write
    from sim.apiserver.resources import ResourceType


_PROPAGATION = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The object after the DELETE; *remove* tells that it leaves the store."""

    obj: JsonObject
    remove: bool


def check_preconditions(resource: ResourceType, obj: JsonObject, write: Write) -> None:
    """Raise 409 when the stored object is not the one that the client means."""
    metadata = obj["metadata"]
    wanted = (
        ("UID", write.uid, "uid"),
        ("ResourceVersion", write.resource_version, "resourceVersion"),
    )
    for word, value, key in wanted:
        if value and value != metadata[key]:
            fate = "deleted and then recreated" if key == "uid" else "modified"
            why = (
                f"the {word} in the precondition ({value}) does not match the {word} in record "
                f"({metadata[key]}). The object might have been {fate}"
            )
            raise conflict(resource.qualified_kind, metadata["name"], why)


def check_binding(pod: JsonObject, told: JsonObject) -> None:
    """Raise 409 when a binding's metadata means another pod, or another state of it."""
    metadata = pod["metadata"]
    for word, key in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        wanted, found = told.get(key), metadata[key]
        if wanted and wanted != found:
            place = f"/registry/pods/{metadata['namespace']}/{metadata['name']}"
            why = (
                f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: {word} in precondition: {wanted}, "
                f"{word} in object meta: {found}"
            )
            raise conflict("pods", metadata["name"], why)


def judge(resource: ResourceType, obj: JsonObject, write: Write) -> Verdict:
    """Return what becomes of *obj*."""
    marked = copy_json(obj)
    metadata = marked["metadata"]
    grace_s = _grace_s(resource, obj, write)
    _set_propagation(metadata, write.propagation)
    held = bool(metadata.get("finalizers")) or is_held(resource, marked)
    if grace_s == 0 and not held:
        if resource.plural == "pods":
            _mark(resource, metadata, 0)
        return Verdict(marked, remove=True)
    _mark(resource, metadata, grace_s)
    if resource.plural == "namespaces":
        marked["status"]["phase"] = "Terminating"
    return Verdict(marked, remove=False)


def _mark(resource: ResourceType, metadata: JsonObject, grace_s: int) -> None:
    """Say when the object is to be gone, if that is sooner than was said before."""
    left_s = metadata.get("deletionGracePeriodSeconds")
    if left_s is None or grace_s < left_s:
        metadata["deletionTimestamp"] = timestamp(in_s=grace_s)
        metadata["deletionGracePeriodSeconds"] = grace_s
        if resource.generation and left_s is None:
            metadata["generation"] = metadata.get("generation", 0) + 1


def _set_propagation(metadata: JsonObject, policy: str) -> None:
    """Leave word for the garbage collector what to do about dependents before the object goes."""
    if not policy:
        return
    kept = [each for each in metadata.get("finalizers", ()) if each not in _PROPAGATION.values()]
    if policy in _PROPAGATION:
        kept.append(_PROPAGATION[policy])
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def is_finished(resource: ResourceType, obj: JsonObject) -> bool:
    """Tell whether an object in deletion is held by nothing any more."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds") and not is_held(resource, obj)


def is_held(resource: ResourceType, obj: JsonObject) -> bool:
    """Tell whether a namespace still waits for its content to go."""
    return resource.plural == "namespaces" and bool(obj.get("spec", {}).get("finalizers"))


def _grace_s(resource: ResourceType, obj: JsonObject, write: Write) -> int:
    if resource.plural != "pods":
        return 0
    grace_s = write.grace_period_s
    if grace_s is None:
        grace_s = obj["spec"].get("terminationGracePeriodSeconds", 30)
    unbound = not obj["spec"].get("nodeName")
    if unbound or obj.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    return max(0, int(grace_s))
