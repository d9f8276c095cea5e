"""Pods with devices of plugins on a node of `tests/sim/kubelet/scene.py`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.sim.kubelet.device_plugin_server import RESOURCE, DevicePluginServer, pod_resources
from tests.sim.kubelet.scene import DEADLINE_S, NODE, QUICK, JsonObject, Scene, scene

REJECTED = "UnexpectedAdmissionError"


class DeviceScene:
    """A node and its device plugins."""

    def __init__(self, node: Scene) -> None:
        self.node = node
        self.plugins: list[DevicePluginServer] = []

    async def plugin(self, **settings: Any) -> DevicePluginServer:
        """Start a plugin and wait until the node offers its devices."""
        plugin = DevicePluginServer(self.node.kubelet_root, **settings)
        self.plugins.append(plugin)
        await asyncio.to_thread(plugin.start)
        healthy = sum(health == "Healthy" for health in plugin.devices.values())
        await self.offers(healthy, len(plugin.devices), resource=plugin.resource)
        return plugin

    async def offers(self, allocatable: int, capacity: int, *, resource: str = RESOURCE) -> None:
        """Wait until the node's status says so."""
        async with asyncio.timeout(DEADLINE_S):
            wanted = (str(allocatable), str(capacity))
            while await self.offered(resource) != wanted:  # noqa: ASYNC110 - the server is polled
                await asyncio.sleep(0.01)

    async def offered(self, resource: str = RESOURCE) -> tuple[str | None, str | None]:
        """Return what is allocatable and the capacity, as the node's status says it."""
        status = (await self.node.api.get("nodes", NODE))["status"]
        return status["allocatable"].get(resource), status["capacity"].get(resource)

    async def pod(
        self,
        name: str,
        *containers: JsonObject,
        init: tuple[JsonObject, ...] = (),
        **spec: Any,
    ) -> JsonObject:
        """Create a pod and bind it to the node."""
        if init:
            spec["initContainers"] = list(init)
        body = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": spec.pop("annotations", {}),
            },
            "spec": {"containers": list(containers), **spec},
        }
        stored = await self.node.api.create("pods", body)
        await self.node.api.bind(name, "default", node=NODE)
        return stored

    async def rejected(self, name: str) -> JsonObject:
        """Wait until kubelet has rejected a pod, and return its status."""
        await self.node.reaches(name, "Failed")
        status: JsonObject = (await self.node.api.get("pods", name, "default"))["status"]
        assert status["reason"] == REJECTED
        return status

    async def gone(self, name: str) -> None:
        """Delete a pod and wait for its end."""
        await self.node.api.delete("pods", name, "default")
        await self.node.reaches(name, None)

    def env(self, pod: JsonObject, container: str = "app") -> dict[str, str]:
        """Return the environment of a container."""
        view = self.node.container(pod, container)
        assert view is not None
        return view.env

    def ids(self, pod: JsonObject, container: str = "app") -> list[str]:
        """Return the ids that the plugin of the tests has named."""
        return self.env(pod, container)["IDS"].split(",")

    async def ask(self, method: str, request: Any) -> Any:
        """Call kubelet's PodResources."""
        return await asyncio.to_thread(pod_resources, self.node.kubelet_root, method, request)


def container(number: int = 1, *, name: str = "app", **more: Any) -> JsonObject:
    """Return a container that asks for *number* devices of the tests' resource."""
    return asking({RESOURCE: str(number)}, name=name, **more)


def asking(limits: dict[str, str], *, name: str = "app", **more: Any) -> JsonObject:
    """Return a container with *limits*."""
    resources = {"limits": limits, "requests": limits}
    return {"name": name, "image": "image", "resources": resources, **more}


@asynccontextmanager
async def device_scene(*, version: str = "1.37", **timing: float) -> AsyncIterator[DeviceScene]:
    """Run a node that tells its status often."""
    quick = replace(QUICK, **{"node_status_s": 0.02, **timing})
    async with scene(version=version, timing=quick) as node:
        made = DeviceScene(node)
        try:
            yield made
        finally:
            for plugin in made.plugins:
                await asyncio.to_thread(plugin.stop)
