"""A store with controllers, in process: no sockets, and waiting without sleeping in tests."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sim.apiserver.api import Api
from sim.apiserver.errors import StatusError
from sim.apiserver.json_values import JsonObject
from sim.apiserver.server import ApiServer

WAIT_S = 30.0
FINALIZER = "resource.kubernetes.io/delete-protection"
DRIVER = "gpu.example.com"

ResultT = TypeVar("ResultT")


def controlled(
    controller: Callable[[Api], Awaitable[None]],
    scene: Callable[[Api], Coroutine[Any, Any, None]],
) -> None:
    """Run *scene* while *controller* runs."""

    async def run() -> None:
        api = ApiServer().api
        task = asyncio.ensure_future(controller(api))
        try:
            await scene(api)
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


async def eventually(look: Callable[[], Awaitable[ResultT | None]]) -> ResultT:
    """Return what *look* finds as soon as it finds something; fail when it never does."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.001)


async def settled() -> None:
    """Let controllers do what they are going to do, retries of a few steps included."""
    await asyncio.sleep(0.05)


async def exists(api: Api, resource: str, name: str, namespace: str | None = "default") -> bool:
    """Tell whether an object is there."""
    try:
        await api.get(resource, name, namespace)
    except StatusError as error:
        if error.code != 404:
            raise
        return False
    return True


async def gone(api: Api, resource: str, name: str, namespace: str | None = "default") -> None:
    """Wait until an object is gone."""

    async def look() -> bool:
        return not await exists(api, resource, name, namespace)

    await eventually(look)


def pod(name: str = "pod", **claims: dict[str, str]) -> JsonObject:
    """Return a pod that uses *claims*, each with its source."""
    entries = [{"name": entry, **source} for entry, source in claims.items()]
    spec: JsonObject = {"containers": [{"name": "main", "image": "image:1"}]}
    if entries:
        spec["resourceClaims"] = entries
    return {"metadata": {"name": name}, "spec": spec}


def claim_spec() -> JsonObject:
    """Return the spec of a claim for one device."""
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def template(name: str = "template") -> JsonObject:
    """Return a template with a label and an annotation."""
    metadata = {"labels": {"app": "x"}, "annotations": {"note": "y"}}
    return {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": claim_spec()}}


async def allocate(api: Api, name: str, *pods: JsonObject) -> JsonObject:
    """Do to a claim what a scheduler does: finalizer, allocation, reservations."""
    claim = await api.get("resourceclaims", name, "default")
    claim["metadata"]["finalizers"] = [FINALIZER]
    claim = await api.update("resourceclaims", claim)
    result = {"request": "gpu", "driver": DRIVER, "pool": "node", "device": "gpu-0"}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    if pods:
        claim["status"]["reservedFor"] = [
            {"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]}
            for one in pods
        ]
    return await api.update("resourceclaims", claim, subresource="status")


async def set_phase(api: Api, name: str, phase: str) -> None:
    """Do to a pod what its kubelet does when it changes."""
    patch = {"status": {"phase": phase}}
    await api.patch("pods", name, patch, namespace="default", subresource="status")
