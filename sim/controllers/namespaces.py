"""The namespace controller: empties a namespace in deletion, then lets it go.

It deletes pods with their own grace and waits until everything has left, finalizers included
(kubernetes: pkg/controller/namespace/deletion).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sim.apiserver.resources import RESOURCES
from sim.controllers.following import follow
from sim.controllers.workqueue import RetryError, WorkQueue

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.apiserver.api import Api


async def run(api: Api) -> None:
    """Run the controller until cancelled."""
    queue: WorkQueue[str] = WorkQueue("namespaces")

    def seen(namespace: JsonObject) -> None:
        if namespace["metadata"].get("deletionTimestamp"):
            queue.add(namespace["metadata"]["name"])

    async def work(name: str) -> None:
        await _empty(api, name)

    async with asyncio.TaskGroup() as group:
        group.create_task(follow(api, "namespaces", seen, lambda _: None))
        group.create_task(queue.run(work))


async def _empty(api: Api, name: str) -> None:
    found, _ = await api.list("namespaces", fields=f"metadata.name={name}")
    if not found or not found[0]["metadata"].get("deletionTimestamp"):
        return
    left = 0
    for resource in RESOURCES:
        if not resource.namespaced:
            continue
        objects, _ = await api.list(resource.plural, name)
        left += len(objects)
        for obj in objects:
            if not obj["metadata"].get("deletionTimestamp"):
                await api.delete(resource.plural, obj["metadata"]["name"], name)
    if left:
        message = f"{left} objects are left in namespace `{name}`"
        raise RetryError(message)
    await api.update("namespaces", {**found[0], "spec": {}}, subresource="finalize")
