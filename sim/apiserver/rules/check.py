"""The one entry to the rules: which of them an object meets at which write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.apiserver.errors import invalid
from sim.apiserver.rules.claim_status import check_claim_status
from sim.apiserver.rules.claims import check_admin_access, check_claim_spec, check_class
from sim.apiserver.rules.findings import Findings
from sim.apiserver.rules.metadata import check_labels, check_metadata, check_metadata_update
from sim.apiserver.rules.pods import check_pod
from sim.apiserver.rules.quotas import check_quota
from sim.apiserver.rules.slices import check_slice
from sim.apiserver.rules.taint_rules import check_rule, check_rule_status
from sim.apiserver.rules.webhooks import check_webhooks

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.resources import ResourceType
    from sim.apiserver.rules.claims import CheckExpression


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One write to judge; *old* is None for a creation."""

    resource: ResourceType
    new: JsonObject
    old: JsonObject | None
    namespace: JsonObject | None
    """The object of that namespace; None for what has none."""
    subresource: str
    server_minor: int
    check_expression: CheckExpression


def check(review: Review) -> None:
    """Raise 422 with all causes when a rule is broken."""
    found = Findings(review.server_minor)
    check_metadata(found, review.resource.plural, review.new["metadata"])
    if review.old is not None:
        check_metadata_update(found, review.new["metadata"], review.old["metadata"])
    check_webhooks(found, review.new)
    _check_kind(found, review)
    if found.causes:
        name = review.new["metadata"].get("name", "")
        raise invalid(review.resource.qualified_kind, name, tuple(found.causes))


def _check_kind(found: Findings, review: Review) -> None:
    new, old = review.new, review.old
    match review.resource.plural:
        case "resourceslices":
            check_slice(found, new, old, server_minor=review.server_minor)
        case "resourceclaims":
            _check_claim(found, review)
        case "resourceclaimtemplates" if old is None:
            _check_template(found, new["spec"].get("metadata", {}))
            _check_new_claim(found, review, "spec.spec", new["spec"]["spec"])
        case "resourceclaimtemplates":
            found.unchanged("spec", old["spec"] if old else None, new["spec"])
        case "devicetaintrules":
            (check_rule_status if review.subresource == "status" else check_rule)(found, new)
        case "deviceclasses":
            check_class(found, new, review.check_expression)
        case "resourcequotas":
            check_quota(found, new)
        case "configmaps" | "secrets" if old is not None:
            _check_data(found, new, old)
        case "pods" if review.subresource != "status":
            check_pod(found, new, old)
        case _:
            pass


def _check_claim(found: Findings, review: Review) -> None:
    if review.old is None:
        _check_new_claim(found, review, "spec", review.new["spec"])
    elif review.subresource == "status":
        check_claim_status(found, review.new, review.old)
    else:
        found.unchanged("spec", review.old["spec"], review.new["spec"])


def _check_template(found: Findings, metadata: JsonObject) -> None:
    for name in metadata.keys() - {"annotations", "labels"}:
        found.forbidden(f"spec.metadata.{name}", "cannot be set")
    check_labels(found, "spec.metadata.labels", metadata.get("labels", {}))


def _check_data(found: Findings, new: JsonObject, old: JsonObject) -> None:
    """Check that what is immutable stays as it is."""
    found.unchanged("type", old.get("type"), new.get("type"))
    if not old.get("immutable"):
        return
    for field in ("immutable", "data", "binaryData"):
        if new.get(field) != old.get(field):
            found.forbidden(field, "field is immutable when `immutable` is set")


def _check_new_claim(found: Findings, review: Review, path: str, spec: JsonObject) -> None:
    check_claim_spec(found, path, spec, review.check_expression)
    check_admin_access(found, path, spec, review.namespace or {})
