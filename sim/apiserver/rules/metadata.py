"""Rules for `metadata`, the same for every resource (apimachinery: pkg/api/validation)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sim.apiserver.rules import names

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_ANNOTATIONS_MAX_BYTES = 256 * 1024
_DECLARATIVE_SINCE = 37
_LABEL_NAMED = {"namespaces"}
_STANDARD_FINALIZERS = {"foregroundDeletion", "kubernetes", "orphan"}


def check_metadata(found: Findings, plural: str, metadata: JsonObject) -> None:
    """Check names, labels, annotations, owners and finalizers."""
    _check_names(found, plural, metadata)
    check_labels(found, "metadata.labels", metadata.get("labels", {}))
    _check_annotations(found, metadata.get("annotations", {}))
    for index, owner in enumerate(metadata.get("ownerReferences", ())):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                _note_empty_owner(found, index, field)
    _check_controllers(found, metadata.get("ownerReferences", []))
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        if not names.is_label_key(finalizer) or (
            "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
        ):
            found.invalid(
                f"metadata.finalizers[{index}]",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            )


def _note_empty_owner(found: Findings, index: int, field: str) -> None:
    if found.minor >= _DECLARATIVE_SINCE:
        found.required(f"metadata.ownerReferences[{index}].{field}", "must not be empty")
        return
    what = "version " if field == "apiVersion" else ""
    found.invalid(f"metadata.ownerReferences.{field}", "", f"{what}must not be empty")


def check_labels(found: Findings, path: str, labels: dict[str, str]) -> None:
    """Check keys and values of labels."""
    for key, value in labels.items():
        if (why := names.fault_of_label_key(key)) is not None:
            found.invalid(path, key, why)
        if not names.is_label_value(value):
            found.invalid(path, value, names.LABEL_VALUE_RULE)


def _check_names(found: Findings, plural: str, metadata: JsonObject) -> None:
    check = names.check_label if plural in _LABEL_NAMED else names.check_subdomain
    base = metadata.get("generateName", "")
    if base:
        check(found, "metadata.generateName", base.rstrip("-") if base != "-" else base)
    name = metadata.get("name", "")
    if not name:
        found.required("metadata.name", "name or generateName is required")
    elif plural in _LABEL_NAMED and "." in name:
        found.invalid("metadata.name", name, "must not contain dots")
    else:
        check(found, "metadata.name", name)


def _check_controllers(found: Findings, owners: list[JsonObject]) -> None:
    controllers = [owner for owner in owners if owner.get("controller")]
    for one, other in pairwise(controllers):
        told = [f"{owner.get('kind')}/{owner.get('name')}" for owner in (one, other)]
        found.invalid(
            "metadata.ownerReferences",
            owners,
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {told[0]} and {told[1]}',
        )


def check_metadata_update(found: Findings, new: JsonObject, old: JsonObject) -> None:
    """Check what may not change, and that an object in deletion gets no new finalizers."""
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        found.unchanged(f"metadata.{field}", old.get(field), new.get(field))
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            told = ", ".join(f'"{name}"' for name in added)
            why = (
                "no new finalizers can be added if the object "
                f"is being deleted, found new finalizers []string{{{told}}}"
            )
            # Older releases say it twice.
            for _ in range(1 if found.minor >= _DECLARATIVE_SINCE else 2):
                found.forbidden("metadata.finalizers", why)


def _check_annotations(found: Findings, annotations: dict[str, str]) -> None:
    size = 0
    for key, value in annotations.items():
        size += len(key.encode()) + len(value.encode())
        if (why := names.fault_of_label_key(key.lower())) is not None:
            found.invalid("metadata.annotations", key, why)
    if size > _ANNOTATIONS_MAX_BYTES:
        found.invalid(
            "metadata.annotations",
            "",
            f"Too long: may not be more than {_ANNOTATIONS_MAX_BYTES} bytes",
        )
