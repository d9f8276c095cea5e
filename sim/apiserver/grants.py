"""SubjectAccessReviews: who may do what, by a table that tests fill.

The server itself lets everybody do everything; the table is for programs that ask before they
decide. Administrators may do all, others what was granted (kubernetes:
pkg/registry/authorization/subjectaccessreview, pkg/apis/authorization/validation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.apiserver.errors import invalid
from sim.apiserver.rules.findings import Findings
from sim.apiserver.users import ADMINISTRATORS

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject

_ANY = "*"
# The real server names no kind: it takes it from the body, where decoding has left none.
_KIND = ".authorization.k8s.io"
_UNION_SINCE = 37
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A right of a user or group in all namespaces; `*` stands for every verb or resource."""

    subject: str
    verb: str
    resource: str
    """With its subresource: `nodes` or `pods/status`."""
    group: str = ""

    def covers(self, attributes: JsonObject) -> bool:
        """Tell whether this is the right that *attributes* are about."""
        name, part = attributes.get("resource", ""), attributes.get("subresource", "")
        wanted = f"{name}/{part}" if part else name
        return (
            self.verb in {_ANY, attributes.get("verb")}
            and self.resource in {_ANY, wanted}
            and self.group in {_ANY, attributes.get("group", "")}
        )


class Grants:
    """All rights that were granted."""

    def __init__(self) -> None:
        self._grants: set[Grant] = set()

    def add(self, grant: Grant) -> None:
        """Grant a right."""
        self._grants.add(grant)

    def take(self, grant: Grant) -> None:
        """Take a right back."""
        self._grants.discard(grant)

    def answered(self, review: JsonObject, minor: int) -> JsonObject:
        """Return *review* with its answer; 422 when it asks nothing that makes sense."""
        spec = review.get("spec") or {}
        _check(Findings(minor), spec)
        subjects = {spec.get("user", ""), *(spec.get("groups") or ())}
        attributes = spec.get("resourceAttributes")
        granted = attributes is not None and any(
            grant.subject in subjects and grant.covers(attributes) for grant in self._grants
        )
        allowed = ADMINISTRATORS in subjects or granted
        return {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": review.get("metadata") or {},
            "spec": spec,
            "status": {"allowed": allowed},
        }


def _check(found: Findings, spec: JsonObject) -> None:
    path = spec.get("nonResourceAttributes")
    if (spec.get("resourceAttributes") is None) == (path is None):
        if found.minor >= _UNION_SINCE:
            found.invalid("spec", path, _ONE_OF)
        elif path is None:
            found.invalid("spec.resourceAttributes", path, _ONE_OF)
        else:
            why = "cannot be specified in combination with resourceAttributes"
            found.invalid("spec.nonResourceAttributes", path, why)
    if not spec.get("user") and not spec.get("groups"):
        why = "at least one of user or group must be specified"
        found.invalid("spec.user", spec.get("user", ""), why)
    if found.causes:
        raise invalid(_KIND, "", tuple(found.causes))
