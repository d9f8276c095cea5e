"""The garbage collector: what is owned goes when its last owner has gone.

Deletion is in the background only: neither foreground deletion nor orphaning is simulated. An
owner counts by UID, so one that was deleted and made anew under its name does not; an owner of
a kind that the server does not know is taken to exist (kubernetes: pkg/controller/
garbagecollector).
"""

from __future__ import annotations

import asyncio
import collections
import functools
from typing import TYPE_CHECKING, NamedTuple

from sim.apiserver.resources import BY_KIND, RESOURCES
from sim.controllers.following import follow
from sim.controllers.lookup import find
from sim.controllers.workqueue import WorkQueue

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.apiserver.api import Api


class _Reference(NamedTuple):
    resource: str
    namespace: str
    name: str


async def run(api: Api) -> None:
    """Run the collector until cancelled."""
    collector = _Collector(api)
    async with asyncio.TaskGroup() as group:
        for resource in RESOURCES:
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
        owners = metadata.get("ownerReferences", ())
        reference = _Reference(plural, metadata.get("namespace", ""), metadata["name"])
        for owner in owners:
            if reference not in self._dependents[owner["uid"]]:
                self._dependents[owner["uid"]].add(reference)
                self._queue.add(reference)

    def gone(self, obj: JsonObject) -> None:
        for reference in self._dependents.pop(obj["metadata"]["uid"], ()):
            self._queue.add(reference)

    async def _collect(self, reference: _Reference) -> None:
        obj = await find(self._api, reference.resource, reference.namespace, reference.name)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return
        owners = obj["metadata"].get("ownerReferences", ())
        for owner in owners:
            if await self._exists(owner, reference.namespace):
                return
        if owners:
            uid = obj["metadata"]["uid"]
            await self._api.delete(
                reference.resource, reference.name, reference.namespace or None, uid=uid
            )

    async def _exists(self, owner: JsonObject, namespace: str) -> bool:
        resource = BY_KIND.get((owner["apiVersion"], owner["kind"]))
        if resource is None:
            return True
        if resource.namespaced and not namespace:
            return False
        found = await find(self._api, resource.plural, namespace, owner["name"])
        return found is not None and found["metadata"]["uid"] == owner["uid"]
