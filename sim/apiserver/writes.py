"""Writes as clients make them: shown to webhooks where some are configured, then stored.

Webhooks are asked over the network, and the state may move on meanwhile. So a write is tried dry
first; what webhooks allow is stored if the object is still the one that they saw, and everything
is done again if not, as the real server does (apiserver: pkg/registry/generic/registry/store.go).
Without webhooks nothing awaits, and a write is as atomic as the registry's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sim.apiserver.admission.asked import Asked
from sim.apiserver.admission.chain import Chain, has_webhooks
from sim.apiserver.errors import StatusError
from sim.apiserver.requests import Listing, Outcome
from sim.apiserver.resources import resource_type

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.registry import Registry
    from sim.apiserver.requests import Write


class Writes:
    """The writing half of the registry with webhooks before it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def create(
        self, plural: str, obj: JsonObject, namespace: str | None, write: Write
    ) -> Outcome:
        """Store a new object."""
        if not has_webhooks(self._registry):
            return self._registry.create(plural, obj, namespace, write)
        draft = self._registry.draft(plural, obj, namespace, write)
        return await self._created(plural, draft.obj, write, draft.warnings())

    async def update(self, plural: str, obj: JsonObject, write: Write) -> Outcome:
        """Replace the stored object of the same name by *obj*."""
        if not has_webhooks(self._registry):
            return self._registry.update(plural, obj, write)
        while True:
            draft = self._registry.draft(plural, obj, None, write)
            metadata = draft.obj["metadata"]
            name, namespace = metadata.get("name", ""), metadata.get("namespace")
            old = self._registry.get(plural, name, namespace)
            outcome = await self._replaced(plural, draft.obj, old, write, draft.warnings())
            if outcome is not None:
                return outcome

    async def patch(
        self, plural: str, name: str, namespace: str | None, patch: Any, write: Write
    ) -> Outcome:
        """Change the stored object by *patch*; an apply may also create it."""
        if not has_webhooks(self._registry):
            return self._registry.patch(plural, name, namespace, patch, write)
        while True:
            old = self._found(plural, name, namespace)
            tried = self._registry.patch(
                plural, name, namespace, patch, replace(write, dry_run=True)
            )
            if old is None:
                return await self._created(plural, tried.obj, write, tried.warnings)
            outcome = await self._replaced(plural, tried.obj, old, write, tried.warnings)
            if outcome is not None:
                return outcome

    async def delete(self, plural: str, name: str, namespace: str | None, write: Write) -> Outcome:
        """Delete one object as far as finalizers and grace allow."""
        if not has_webhooks(self._registry):
            return self._registry.delete(plural, name, namespace, write)
        seen: dict[str, list[str]] = {}
        # What has taken the object's place meanwhile is another one, which no webhook has seen.
        while (old := self._registry.get(plural, name, namespace))["metadata"]["uid"] not in seen:
            chain = Chain(self._registry)
            asked = self._asked(plural, "DELETE", write, old=old)
            await chain.mutate(asked)
            await chain.judge(asked)
            seen[old["metadata"]["uid"]] = chain.warnings
        outcome = self._registry.delete(plural, name, namespace, write)
        return replace(outcome, warnings=tuple(seen[old["metadata"]["uid"]]))

    async def delete_collection(
        self, plural: str, namespace: str | None, listing: Listing, write: Write
    ) -> list[JsonObject]:
        """Delete all selected objects and return them."""
        if not has_webhooks(self._registry):
            return self._registry.delete_collection(plural, namespace, listing, write)
        chosen = Listing(labels=listing.labels, fields=listing.fields)
        page = self._registry.list(plural, namespace, chosen)
        for item in page.items:
            metadata = item["metadata"]
            await self.delete(plural, metadata["name"], metadata.get("namespace"), write)
        return page.items

    async def bind(self, name: str, namespace: str, binding: JsonObject, write: Write) -> None:
        """Set the node of a pod that has none, as a *binding* says."""
        if has_webhooks(self._registry):
            chain = Chain(self._registry)
            new = {"kind": "Binding", "apiVersion": "v1", **binding}
            new["metadata"] = {"name": name, "namespace": namespace, **binding.get("metadata", {})}
            asked = self._asked("pods", "CREATE", write, new=new)
            binding = await chain.mutate(asked) or new
            await chain.judge(replace(asked, new=binding))
        self._registry.bind(name, namespace, binding, write)

    async def _created(
        self, plural: str, draft: JsonObject, write: Write, warnings: tuple[str, ...]
    ) -> Outcome:
        """Admit and store *draft*, which keeps the owners of fields that it has."""
        chain, registry = Chain(self._registry), self._registry
        managed = draft["metadata"].get("managedFields")
        namespace = draft["metadata"].get("namespace")
        _without_identity(draft)
        asked = self._asked(plural, "CREATE", write, new=draft)
        new = await chain.mutate(asked) or draft
        dry = replace(write, dry_run=True)
        outcome = registry.create(plural, new, namespace, dry, managed=managed)
        await chain.judge(self._asked(plural, "CREATE", write, new=outcome.obj))
        if not write.dry_run:
            metadata = outcome.obj["metadata"]
            known = replace(write, uid=metadata["uid"])
            new["metadata"]["name"] = metadata["name"]
            outcome = registry.create(plural, new, namespace, known, managed=managed)
        return _with(outcome, warnings, chain)

    async def _replaced(
        self,
        plural: str,
        draft: JsonObject,
        old: JsonObject,
        write: Write,
        warnings: tuple[str, ...],
    ) -> Outcome | None:
        """Admit and store *draft*; None when *old* is no longer what is stored."""
        chain, registry = Chain(self._registry), self._registry
        new = await chain.mutate(self._asked(plural, "UPDATE", write, new=draft, old=old)) or draft
        outcome = registry.update(plural, new, replace(write, dry_run=True))
        await chain.judge(self._asked(plural, "UPDATE", write, new=outcome.obj, old=old))
        if write.dry_run:
            return _with(outcome, warnings, chain)
        metadata = old["metadata"]
        current = self._found(plural, metadata["name"], metadata.get("namespace"))
        if current is not None and current != old:
            return None
        return _with(registry.update(plural, new, write), warnings, chain)

    def _asked(
        self,
        plural: str,
        operation: str,
        write: Write,
        *,
        new: JsonObject | None = None,
        old: JsonObject | None = None,
    ) -> Asked:
        metadata = (new or old or {})["metadata"]
        return Asked(
            resource=resource_type(plural),
            operation=operation,
            name=metadata.get("name", ""),
            namespace=metadata.get("namespace", ""),
            new=new,
            old=old,
            write=write,
        )

    def _found(self, plural: str, name: str, namespace: str | None) -> JsonObject | None:
        try:
            return self._registry.get(plural, name, namespace)
        except StatusError as error:
            if error.code == 404:
                return None
            raise


def _without_identity(draft: JsonObject) -> None:
    """Take away what a dry run has given a new object."""
    for key in ("creationTimestamp", "generation", "managedFields", "uid"):
        draft["metadata"].pop(key, None)


def _with(outcome: Outcome, warnings: tuple[str, ...], chain: Chain) -> Outcome:
    told = dict.fromkeys((*warnings, *chain.warnings, *outcome.warnings))
    return replace(outcome, warnings=tuple(told))
