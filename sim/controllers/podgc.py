"""The pod collector: pods of a node that was deleted are deleted without grace.

The real one waits 40 s for the node to come back (kubernetes: pkg/controller/podgc); a test
that deletes a node means it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sim.controllers.following import follow
from sim.controllers.lookup import find
from sim.controllers.workqueue import WorkQueue

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.apiserver.api import Api


async def run(api: Api) -> None:
    """Run the collector until cancelled."""
    queue: WorkQueue[str] = WorkQueue("pods of deleted nodes")

    def gone(node: JsonObject) -> None:
        queue.add(node["metadata"]["name"])

    async def work(node: str) -> None:
        await _delete_pods(api, node)

    async with asyncio.TaskGroup() as group:
        group.create_task(follow(api, "nodes", lambda _: None, gone))
        group.create_task(queue.run(work))


async def _delete_pods(api: Api, node: str) -> None:
    if await find(api, "nodes", "", node) is not None:
        return
    pods, _ = await api.list("pods", fields=f"spec.nodeName={node}")
    for pod in pods:
        metadata = pod["metadata"]
        if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            await api.patch(
                "pods",
                metadata["name"],
                {"status": {"phase": "Failed", "reason": "NodeLost"}},
                namespace=metadata["namespace"],
                subresource="status",
            )
        await api.delete(
            "pods", metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_period_s=0
        )
