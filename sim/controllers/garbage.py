"""The garbage collector: what is owned goes when its last owner has gone.

Two finalizers are its own: `foregroundDeletion` holds an owner until those dependents are gone
that block its deletion, `orphan` until they have forgotten it. An owner counts by UID, so one that
was deleted and made anew under its name does not; an owner of a kind that the server does not know
is taken to exist (kubernetes: pkg/controller/garbagecollector).
"""

from __future__ import annotations

import asyncio
import collections
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from sim.apiserver.resources import BY_KIND, BY_PLURAL, RESOURCES
from sim.controllers.following import follow
from sim.controllers.lookup import find
from sim.controllers.workqueue import WorkQueue

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.apiserver.api import Api


_FOREGROUND = "foregroundDeletion"
_ORPHAN = "orphan"


class _Reference(NamedTuple):
    resource: str
    namespace: str
    name: str


async def run(api: Api) -> None:
    """Run the collector until cancelled."""
    collector = _Collector(api)
    async with asyncio.TaskGroup() as group:
        for resource in (each for each in RESOURCES if each.kept):
            seen = functools.partial(collector.seen, resource.plural)
            group.create_task(follow(api, resource.plural, seen, collector.gone))
        group.create_task(collector.work())


class _Collector:
    """Remembers who depends on which UID."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._queue: WorkQueue[_Reference] = WorkQueue("garbage")
        self._dependents: dict[str, set[_Reference]] = collections.defaultdict(set)

    async def work(self) -> None:
        await self._queue.run(self._collect)

    def seen(self, plural: str, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        reference = _Reference(plural, metadata.get("namespace", ""), metadata["name"])
        for owner in metadata.get("ownerReferences", ()):
            if reference not in self._dependents[owner["uid"]]:
                self._dependents[owner["uid"]].add(reference)
                self._queue.add(reference)
        if _waits_with(obj, _FOREGROUND) or _waits_with(obj, _ORPHAN):
            self._queue.add(reference)

    def gone(self, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        for reference in self._dependents.pop(metadata["uid"], ()):
            self._queue.add(reference)
        for owner in metadata.get("ownerReferences", ()):
            place = _owner(owner, metadata.get("namespace", ""))
            if place is not None:
                self._queue.add(place)

    async def _collect(self, reference: _Reference) -> None:
        obj = await find(self._api, reference.resource, reference.namespace, reference.name)
        if obj is None:
            return
        if _waits_with(obj, _ORPHAN):
            await self._let_dependents_go(reference, obj)
        elif _waits_with(obj, _FOREGROUND):
            await self._wait_for_dependents(reference, obj)
        if not obj["metadata"].get("deletionTimestamp"):
            await self._judge(reference, obj)

    async def _judge(self, reference: _Reference, obj: JsonObject) -> None:
        """Delete what has lost its owners, and forget those that are gone beside one that stays."""
        owners = obj["metadata"].get("ownerReferences", [])
        staying = [each for each in owners if await self._stays(each, reference.namespace)]
        if staying and len(staying) < len(owners):
            await self._change(reference, obj, "ownerReferences", staying)
        elif owners and not staying:
            uid = obj["metadata"]["uid"]
            blocked = any(self._blocks(each, uid) for _, each in await self._dependents_of(obj))
            await self._api.delete(
                reference.resource,
                reference.name,
                reference.namespace or None,
                uid=uid,
                propagation="Foreground" if blocked else "Background",
            )

    async def _wait_for_dependents(self, reference: _Reference, obj: JsonObject) -> None:
        """Have the dependents deleted, and let *obj* go when none that blocks it is left."""
        dependents = await self._dependents_of(obj)
        for dependent, _ in dependents:
            self._queue.add(dependent)
        uid = obj["metadata"]["uid"]
        if not any(self._blocks(each, uid) for _, each in dependents):
            await self._drop_finalizer(reference, obj, _FOREGROUND)

    async def _let_dependents_go(self, reference: _Reference, obj: JsonObject) -> None:
        uid = obj["metadata"]["uid"]
        for dependent, each in await self._dependents_of(obj):
            owners = each["metadata"].get("ownerReferences", ())
            others = [owner for owner in owners if owner["uid"] != uid]
            await self._change(dependent, each, "ownerReferences", others)
        await self._drop_finalizer(reference, obj, _ORPHAN)

    async def _drop_finalizer(self, reference: _Reference, obj: JsonObject, name: str) -> None:
        kept = [each for each in obj["metadata"]["finalizers"] if each != name]
        await self._change(reference, obj, "finalizers", kept)

    async def _change(
        self, reference: _Reference, obj: JsonObject, field: str, value: list[Any]
    ) -> None:
        version = obj["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, field: value or None}}
        await self._api.patch(
            reference.resource, reference.name, patch, namespace=reference.namespace or None
        )

    async def _dependents_of(self, obj: JsonObject) -> list[tuple[_Reference, JsonObject]]:
        uid = obj["metadata"]["uid"]
        found = []
        for reference in sorted(self._dependents.get(uid, ())):
            each = await find(self._api, reference.resource, reference.namespace, reference.name)
            owners = each["metadata"].get("ownerReferences", ()) if each is not None else ()
            if each is not None and any(owner["uid"] == uid for owner in owners):
                found.append((reference, each))
        return found

    def _blocks(self, obj: JsonObject, uid: str) -> bool:
        owners = obj["metadata"].get("ownerReferences", ())
        return any(each["uid"] == uid and each.get("blockOwnerDeletion") for each in owners)

    async def _stays(self, owner: JsonObject, namespace: str) -> bool:
        """Tell whether an owner exists and does not wait for its dependents to go."""
        reference = _owner(owner, namespace)
        if reference is None:
            return True
        if not reference.namespace and BY_PLURAL[reference.resource].namespaced:
            return False
        found = await find(self._api, reference.resource, reference.namespace, reference.name)
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            return False
        return not _waits_with(found, _FOREGROUND)


def _owner(owner: JsonObject, namespace: str) -> _Reference | None:
    """Return where an owner is to be found, None when the server has no such kind."""
    resource = BY_KIND.get((owner["apiVersion"], owner["kind"]))
    if resource is None:
        return None
    return _Reference(resource.plural, namespace if resource.namespaced else "", owner["name"])


def _waits_with(obj: JsonObject, finalizer: str) -> bool:
    """Tell whether *obj* is in deletion and held by *finalizer*."""
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and finalizer in metadata.get("finalizers", ())
