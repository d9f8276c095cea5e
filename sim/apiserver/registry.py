"""Writes: every change of the cluster's state goes through here, from HTTP and in process.

The order is that of the real server: decode, reset what the client may not say, drop disabled
fields, fill defaults, validate, store. Nothing awaits in between, so writes are atomic.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sim.apiserver import defaults, zeros
from sim.apiserver.apply import applied, check_config
from sim.apiserver.decoding import Decoded, check_schema, decode, drop_empty
from sim.apiserver.deleting import check_binding, check_preconditions, is_finished, judge
from sim.apiserver.errors import (
    Cause,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    no_such_path,
    not_found,
)
from sim.apiserver.json_values import copy_json, timestamp
from sim.apiserver.patches import APPLY_PATCH, patched
from sim.apiserver.preparing import check_current, prepare_create, prepare_update
from sim.apiserver.reading import Reads, key_of
from sim.apiserver.requests import Listing, Outcome, Write
from sim.apiserver.resources import ResourceType, resource_type
from sim.apiserver.rules.check import Review, check
from sim.apiserver.schemas import schemas

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.claims import CheckExpression
    from sim.apiserver.storage import Key, Store
    from sim.apiserver.versions import Version

_OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


class Registry(Reads):
    """All resources of one cluster; *version* may be replaced at any time."""

    def __init__(self, store: Store, version: Version, check_expression: CheckExpression) -> None:
        super().__init__(store, version)
        self._check_expression = check_expression

    def draft(self, plural: str, obj: JsonObject, namespace: str | None, write: Write) -> Decoded:
        """Return *obj* as webhooks see it before it is judged: decoded and with defaults."""
        decoded = self._decoded(self.served(plural), obj, namespace, write)
        defaults.fill(plural, decoded.obj)
        return decoded

    def create(
        self,
        plural: str,
        obj: JsonObject,
        namespace: str | None,
        write: Write,
        *,
        managed: list[JsonObject] | None = None,
    ) -> Outcome:
        """Store a new object; *managed* says who owns its fields."""
        resource = self.served(plural)
        decoded = self._decoded(resource, obj, namespace, write)
        return self._insert(resource, decoded, write, managed)

    def update(self, plural: str, obj: JsonObject, write: Write) -> Outcome:
        """Replace the stored object of the same name by *obj*."""
        resource = self.served(plural)
        decoded = self._decoded(resource, obj, None, write)
        metadata = decoded.obj["metadata"]
        key = key_of(resource, metadata.get("name", ""), metadata.get("namespace"))
        return self._replace(resource, key, decoded, write)

    def patch(
        self, plural: str, name: str, namespace: str | None, patch: Any, write: Write
    ) -> Outcome:
        """Change the stored object by *patch*; an apply may also create it."""
        resource = self.served(plural)
        key = key_of(resource, name, namespace)
        shape = schemas(self.version.minor).shape(resource)
        if write.patch_type != APPLY_PATCH:
            new = patched(shape, self.stored(resource, key), patch, write.patch_type)
            decoded = self._decoded_patch(resource, name, new, write)
            return self._replace(resource, key, decoded, write)
        check_config(resource, patch, write)
        config = self._decoded(resource, patch, namespace, write).obj
        config["metadata"]["name"] = name
        live = self._store.get(plural, key)
        if live is None and write.subresource:
            raise not_found(resource.qualified, name)
        base = live or {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {k: v for k, v in config["metadata"].items() if k in {"name", "namespace"}},
        }
        new = applied(
            shape,
            base,
            config,
            manager=write.field_manager,
            force=write.force,
            part=write.subresource,
        )
        if live is not None:
            return self._replace(
                resource, key, self._decoded(resource, new, namespace, write), write
            )
        managed = new["metadata"].pop("managedFields")
        return self._insert(resource, Decoded(new), write, managed)

    def _decoded_patch(
        self, resource: ResourceType, name: str, new: JsonObject, write: Write
    ) -> Decoded:
        """Decode what a patch has made; what it cannot hold is blamed on the patch."""
        told = new.get("metadata")
        if isinstance(told, dict) and told.get("name") != name:
            message = f"the name of the object ({told.get('name')}) does not match the name"
            message += f" on the URL ({name})"
            raise bad_request(message)
        try:
            return self._decoded(resource, new, None, write)
        except StatusError as error:
            text = json.dumps(json.dumps(new, separators=(",", ":")))
            why = f"Invalid value: {text}: {error.message.partition(': ')[2] or error.message}"
            cause = Cause(reason="FieldValueInvalid", field="patch", message=why)
            raise invalid("", "", (cause,)) from error

    def delete(self, plural: str, name: str, namespace: str | None, write: Write) -> Outcome:
        """Delete one object as far as finalizers and grace allow."""
        resource = self.served(plural)
        key = key_of(resource, name, namespace)
        old = self.stored(resource, key)
        check_preconditions(resource, old, write)
        if plural == "namespaces" and name in {"default", "kube-system", "kube-public"}:
            raise forbidden(plural, name, "this namespace may not be deleted")
        verdict = judge(resource, old, write)
        last = verdict.obj
        if not write.dry_run and verdict.remove:
            last = self._store.remove(plural, key, last)
        elif not write.dry_run and last != old:
            last = self._store.put(plural, key, last)
        return Outcome(obj=copy_json(last), removed=verdict.remove)

    def delete_collection(
        self, plural: str, namespace: str | None, listing: Listing, write: Write
    ) -> list[JsonObject]:
        """Delete all selected objects and return them."""
        page = self.list(plural, namespace, Listing(labels=listing.labels, fields=listing.fields))
        for item in page.items:
            metadata = item["metadata"]
            self.delete(plural, metadata["name"], metadata.get("namespace"), write)
        return page.items

    def bind(self, name: str, namespace: str, binding: JsonObject, write: Write) -> None:
        """Set the node of a pod that has none, and mark the pod as the *binding* is marked."""
        resource = resource_type("pods")
        key = key_of(resource, name, namespace)
        pod = copy_json(self.stored(resource, key))
        told = binding.get("metadata") or {}
        check_binding(pod, told)
        bound = pod["spec"].get("nodeName")
        if bound:
            why = f'pod {name} is already assigned to node "{bound}"'
            raise conflict("pods/binding", name, why)
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise conflict("pods/binding", name, why)
        pod["spec"]["nodeName"] = (binding.get("target") or {}).get("name", "")
        copied = ("annotations", "labels") if self.version.binds_labels else ("annotations",)
        for mark in copied:
            if told.get(mark):
                pod["metadata"].setdefault(mark, {}).update(told[mark])
        conditions = pod.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [entry for entry in conditions if entry["type"] != "PodScheduled"]
        conditions.append(
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp()}
        )
        if not write.dry_run:
            self._store.put("pods", key, pod)

    def _insert(
        self,
        resource: ResourceType,
        decoded: Decoded,
        write: Write,
        managed: list[JsonObject] | None = None,
    ) -> Outcome:
        new = decoded.obj
        prepare_create(resource, new, write.uid)
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        key = key_of(resource, new["metadata"].get("name", ""), new["metadata"].get("namespace"))
        self._check_namespace(resource, key)
        self._finish(resource, decoded, None, "")
        taken = self._store.get(resource.plural, key)
        if taken is not None:
            going = bool(taken["metadata"].get("deletionTimestamp"))
            raise already_exists(resource.qualified, key[1], in_deletion=going)
        stored = new if write.dry_run else self._store.put(resource.plural, key, new)
        return Outcome(obj=copy_json(stored), created=True, warnings=decoded.warnings())

    def _replace(self, resource: ResourceType, key: Key, decoded: Decoded, write: Write) -> Outcome:
        old = self.stored(resource, key)
        if not resource.has_subresource(write.subresource):
            raise no_such_path()
        new = decoded.obj
        check_current(resource, new, old)
        if write.subresource == "finalize":
            finalizers = new.get("spec", {}).get("finalizers", [])
            new = {**copy_json(old), "spec": {"finalizers": finalizers}}
            decoded.obj = new
        prepare_update(resource, new, old, write.subresource)
        self._finish(resource, decoded, old, write.subresource)
        changed = any(new.get(key) != old.get(key) for key in ("spec", "webhooks"))
        if resource.generation and changed and write.subresource != "status":
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        stored = new if write.dry_run else self._stored_as(resource, key, new, old)
        return Outcome(obj=copy_json(stored), warnings=decoded.warnings())

    def _stored_as(
        self, resource: ResourceType, key: Key, new: JsonObject, old: JsonObject
    ) -> JsonObject:
        if is_finished(resource, new):
            return self._store.remove(resource.plural, key, new)
        if new == old:
            return old
        return self._store.put(resource.plural, key, new)

    def _decoded(
        self, resource: ResourceType, obj: Any, namespace: str | None, write: Write
    ) -> Decoded:
        """Check type and namespace of what a client sent, and decode it."""
        if not isinstance(obj, dict):
            raise bad_request("the object provided is not a JSON object")
        told = (obj.get("apiVersion", resource.api_version), obj.get("kind", resource.kind))
        if told != (resource.api_version, resource.kind):
            version = str(told[0]).rpartition("/")[2]
            message = f'{told[1]} in version "{version}" cannot be handled as a {resource.kind}'
            raise bad_request(message)
        typed = {**obj, "apiVersion": resource.api_version, "kind": resource.kind}
        typed["metadata"] = typed.get("metadata") or {}
        strict = write.field_validation == "Strict"
        decoded = decode(schemas(self.version.minor), resource, typed, strict=strict)
        metadata = decoded.obj["metadata"]
        own = metadata.get("namespace")
        if not resource.namespaced:
            metadata.pop("namespace", None)
        elif namespace and own and own != namespace:
            raise bad_request(_OTHER_NAMESPACE)
        elif namespace:
            metadata["namespace"] = namespace
        zeros.stored(resource.plural, decoded.obj)
        if write.field_validation == "Ignore":
            decoded.unknown.clear()
        return decoded

    def _finish(
        self, resource: ResourceType, decoded: Decoded, old: JsonObject | None, subresource: str
    ) -> None:
        """Drop, default and validate the object in place."""
        new = decoded.obj
        self.version.drop_disabled(resource.plural, new, old)
        defaults.fill(resource.plural, new)
        spaces = self._namespace(new["metadata"]["namespace"]) if resource.namespaced else None
        known = schemas(self.version.minor)
        review = Review(
            resource=resource,
            new=new,
            old=old,
            namespace=spaces,
            subresource=subresource,
            server_minor=self.version.number,
            check_expression=self._check_expression,
        )
        try:
            check_schema(known, resource, new)
            check(review)
        except StatusError as error:
            error.warnings = decoded.warnings()
            raise
        drop_empty(known.shape(resource), new)

    def _check_namespace(self, resource: ResourceType, key: Key) -> None:
        if not resource.namespaced:
            return
        namespace = self._namespace(key[0])
        if namespace["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {key[0]} because it is being"
            raise forbidden(resource.qualified, key[1], f"{why} terminated")

    def _namespace(self, name: str) -> JsonObject:
        return self.stored(resource_type("namespaces"), ("", name))
