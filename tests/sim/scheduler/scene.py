"""A store with a scheduler at work, and pods and claims for it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from sim.apiserver.api import Api
from sim.apiserver.server import ApiServer
from sim.scheduler.allocator import Allocator
from sim.scheduler.cel import fault_of
from sim.scheduler.configuration import read_configuration
from sim.scheduler.scheduler import Scheduler

DRIVER = "gpu.example.com"
PATIENCE_S = 20
Json = dict[str, Any]


class Scene:
    """A cluster with one scheduler and no node yet."""

    def __init__(self, api: Api, scheduler: Scheduler) -> None:
        self.api = api
        self.scheduler = scheduler

    async def node(self, name: str, *, memory: str = "40Gi", shares: int = 10) -> None:
        """Add a node with one shareable GPU."""
        await self.api.create("nodes", {"metadata": {"name": name}})
        await self.api.create("resourceslices", _slice(name, memory, shares))

    async def claim(self, name: str, memory: str | None = None) -> None:
        """Add a claim for a part of a GPU."""
        exactly: Json = {"deviceClassName": "gpu"}
        if memory:
            exactly["capacity"] = {"requests": {"memory": memory}}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        await self.api.create(
            "resourceclaims",
            {"metadata": {"name": name, "namespace": "default"}, "spec": spec},
        )

    async def rule(self, name: str, *, effect: str = "NoSchedule", **selector: str) -> None:
        """Add a rule that taints the devices of *selector*."""
        taint = {"key": "example.com/broken", "effect": effect}
        body = {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}
        await self.api.create("devicetaintrules", body)

    async def pod(self, name: str, *claims: str, **spec: Any) -> None:
        """Add a pod that names claims."""
        entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        await self.add_pod(name, {"resourceClaims": entries, **spec})

    async def add_pod(self, name: str, spec: Json) -> None:
        """Add a pod."""
        containers = [{"name": "main", "image": "none"}]
        await self.api.create(
            "pods",
            {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"containers": containers, **spec},
            },
        )

    async def get(self, resource: str, name: str) -> Json:
        """Read an object of the namespace."""
        return await self.api.get(resource, name, "default")

    async def bound(self, name: str) -> str:
        """Wait until a pod has a node and return it."""
        return await self._when(name, lambda pod: pod["spec"].get("nodeName"))

    async def pending(self, name: str, part: str = "") -> str:
        """Wait until a pod says why it has no node, with *part* in it, and return that."""

        def said(pod: Json) -> str | None:
            condition = scheduled(pod)
            message = condition.get("message", "")
            waits = condition.get("status") == "False" and part in message
            return message if waits else None

        return await self._when(name, said)

    async def _when(self, name: str, check: Callable[[Json], str | None]) -> str:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = check(await self.get("pods", name))
                if found:
                    return found
                await asyncio.sleep(0.001)


def _slice(node: str, memory: str, shares: int) -> Json:
    policy = {"default": memory, "validRange": {"min": "1Mi", "step": "1Mi"}}
    one = {"default": "1", "validValues": ["1"]}
    device = {
        "name": "gpu-0",
        "allowMultipleAllocations": True,
        "capacity": {
            "memory": {"value": memory, "requestPolicy": policy},
            "shares": {"value": str(shares), "requestPolicy": one},
        },
    }
    return {
        "metadata": {"name": f"{node}-slice"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [device],
        },
    }


def scheduled(pod: Json) -> Json:
    """Return what a pod says about its binding, empty if nothing."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((it for it in conditions if it["type"] == "PodScheduled"), {})


@asynccontextmanager
async def scheduling(
    server: ApiServer, version: str = "1.36", extenders: Sequence[Json] = ()
) -> AsyncIterator[Scene]:
    """Run a scheduler on *server*, with *extenders* as its configuration has them."""
    configuration = read_configuration({"extenders": list(extenders)})
    scheduler = Scheduler(server.api, Allocator(version), configuration)
    task = asyncio.create_task(scheduler.run())
    try:
        yield Scene(server.api, scheduler)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def played(scenario: Callable[[Scene], Coroutine[Any, Any, None]], version: str = "1.36") -> None:
    """Run *scenario* in a cluster with a class for all GPUs."""

    async def play() -> None:
        server = ApiServer(version, check_expression=fault_of)
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        body = {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
        await server.api.create("deviceclasses", body)
        async with scheduling(server, version) as scene:
            await scenario(scene)

    asyncio.run(play())
