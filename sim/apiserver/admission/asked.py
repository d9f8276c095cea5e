"""One write as webhooks are told about it: the request of an `AdmissionReview`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.apiserver.users import groups_of
from sim.apiserver.zeros import shown

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.requests import Write
    from sim.apiserver.resources import ResourceType

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A write that is to be admitted; *new* is None for a deletion, *old* for a creation."""

    resource: ResourceType
    operation: str
    """`CREATE`, `UPDATE` or `DELETE`."""
    name: str
    namespace: str
    new: JsonObject | None
    old: JsonObject | None
    write: Write

    def review(self) -> JsonObject:
        """Return the `AdmissionReview` to send, with an identity of its own."""
        return {
            "kind": "AdmissionReview",
            "apiVersion": "admission.k8s.io/v1",
            "request": self._request(),
        }

    def _request(self) -> JsonObject:
        row, subresource = self.resource, self.write.subresource
        kind = "Binding" if subresource == "binding" else row.kind
        kinds = {"group": row.group, "version": row.version, "kind": kind}
        plurals = {"group": row.group, "version": row.version, "resource": row.plural}
        request: JsonObject = {
            "uid": str(uuid.uuid4()),
            "kind": kinds,
            "resource": plurals,
            "requestKind": kinds,
            "requestResource": plurals,
        }
        if subresource:
            request |= {"subResource": subresource, "requestSubResource": subresource}
        if self.name:
            request["name"] = self.name
        if self.namespace:
            request["namespace"] = self.namespace
        return {
            **request,
            "operation": self.operation,
            "userInfo": {"username": self.write.user, "groups": groups_of(self.write.user)},
            "object": self._shown(self.new),
            "oldObject": self._shown(self.old),
            "dryRun": self.write.dry_run,
            "options": self._options(),
        }

    def _shown(self, obj: JsonObject | None) -> JsonObject | None:
        if obj is None or self.write.subresource == "binding":
            return obj
        return shown(self.resource.plural, obj)

    def _options(self) -> JsonObject:
        write = self.write
        options: JsonObject = {
            "kind": _OPTIONS[self.operation],
            "apiVersion": "meta.k8s.io/v1",
        }
        if write.dry_run:
            options["dryRun"] = ["All"]
        if self.operation != "DELETE":
            return options | ({"fieldManager": write.field_manager} if write.field_manager else {})
        if write.grace_period_s is not None:
            options["gracePeriodSeconds"] = write.grace_period_s
        if write.propagation:
            options["propagationPolicy"] = write.propagation
        told = {"uid": write.uid, "resourceVersion": write.resource_version}
        preconditions = {key: value for key, value in told.items() if value}
        return options | ({"preconditions": preconditions} if preconditions else {})
