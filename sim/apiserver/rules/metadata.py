"""Rules for `metadata`, the same for every resource (apimachinery: pkg/api/validation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.rules import names

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_ANNOTATIONS_MAX_BYTES = 256 * 1024
_LABEL_NAMED = {"namespaces"}


def check_metadata(found: Findings, plural: str, metadata: JsonObject) -> None:
    """Check names, labels, annotations, owners and finalizers."""
    name = metadata.get("name", "")
    check = names.check_label if plural in _LABEL_NAMED else names.check_subdomain
    check(found, "metadata.name", name)
    for key, value in metadata.get("labels", {}).items():
        if not names.is_label_key(key):
            found.invalid(
                "metadata.labels",
                key,
                "name part must consist of alphanumeric characters, '-', '_' or '.'",
            )
        if not names.is_label_value(value):
            found.invalid(
                "metadata.labels",
                value,
                "a valid label must be an empty string or "
                "consist of alphanumeric characters, '-', '_' or '.'",
            )
    _check_annotations(found, metadata.get("annotations", {}))
    for index, owner in enumerate(metadata.get("ownerReferences", ())):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                found.invalid(f"metadata.ownerReferences[{index}].{field}", "", "must not be empty")
    if sum(1 for owner in metadata.get("ownerReferences", ()) if owner.get("controller")) > 1:
        found.invalid(
            "metadata.ownerReferences", "", "Only one reference can have Controller set to true"
        )
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        if not names.is_label_key(finalizer):
            found.invalid(
                f"metadata.finalizers[{index}]",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def check_metadata_update(found: Findings, new: JsonObject, old: JsonObject) -> None:
    """Check what may not change, and that an object in deletion gets no new finalizers."""
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        found.unchanged(f"metadata.{field}", old.get(field), new.get(field))
    if old.get("deletionTimestamp"):
        added = set(new.get("finalizers", ())) - set(old.get("finalizers", ()))
        if added:
            found.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object "
                f"is being deleted, found new finalizers {sorted(added)}",
            )


def _check_annotations(found: Findings, annotations: dict[str, str]) -> None:
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        if not names.is_label_key(key.lower()):
            found.invalid(
                "metadata.annotations",
                key,
                "name part must consist of alphanumeric characters, '-', '_' or '.'",
            )
    if size > _ANNOTATIONS_MAX_BYTES:
        found.invalid(
            "metadata.annotations",
            "",
            f"Too long: may not be more than {_ANNOTATIONS_MAX_BYTES} bytes",
        )
