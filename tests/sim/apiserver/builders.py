"""Objects that the server accepts, and a client that shows the wire as it is."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Self

import aiohttp

from sim.apiserver.errors import StatusError
from sim.apiserver.json_values import JsonObject
from sim.apiserver.server import ApiServer

DRA = "/apis/resource.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
SLICES = f"{DRA}/resourceslices"
CLAIMS = f"{DRA}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
WAIT_S = 30.0


def pod(name: str = "pod", **spec: Any) -> JsonObject:
    """Return a pod with one container."""
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "image:1"}], **spec},
    }


def configmap(name: str = "map", **metadata: Any) -> JsonObject:
    """Return the simplest of all objects."""
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


def device(name: str = "gpu-0", **fields: Any) -> JsonObject:
    """Return a device with one attribute."""
    return {"name": name, "attributes": {"model": {"string": "T4"}}, **fields}


def shared(name: str = "gpu-0", **policy: Any) -> JsonObject:
    """Return a device of 16Gi that can be shared under *policy*."""
    capacity = {"memory": {"value": "16Gi", "requestPolicy": policy}}
    return device(name, allowMultipleAllocations=True, capacity=capacity)


def resource_slice(*devices: JsonObject, name: str = "slice", **spec: Any) -> JsonObject:
    """Return a slice of one pool on node-a."""
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}
    listed = {"devices": list(devices)} if devices else {}
    return {
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": pool, "nodeName": "node-a", **listed, **spec},
    }


def claim(name: str = "claim", *, capacity: dict[str, str] | None = None) -> JsonObject:
    """Return a claim for one device of a class."""
    exactly: JsonObject = {"deviceClassName": "gpu"}
    if capacity is not None:
        exactly["capacity"] = {"requests": capacity}
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def allocation(**result: Any) -> JsonObject:
    """Return an allocation of gpu-0."""
    entry = {"request": "gpu", "driver": DRIVER, "pool": "node-a", "device": "gpu-0", **result}
    return {"devices": {"results": [entry]}}


def consumer(uid: str = "uid-1", name: str = "pod") -> JsonObject:
    """Return a reservation for a pod."""
    return {"resource": "pods", "name": name, "uid": uid}


class Wire:
    """A client that returns status and decoded body of every answer."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.headers: Any = {}

    async def send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, JsonObject]:
        """Send one request."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type} if data is not None else {}
        async with self.session.request(method, path, data=data, headers=headers) as response:
            self.headers = response.headers
            text = await response.text()
            plain = response.content_type == "text/plain"
            return response.status, {"text": text} if plain else json.loads(text)

    async def get(self, path: str) -> tuple[int, JsonObject]:
        """GET *path*."""
        return await self.send("GET", path)

    async def post(self, path: str, body: Any) -> tuple[int, JsonObject]:
        """POST *body*."""
        return await self.send("POST", path, body)

    async def put(self, path: str, body: Any) -> tuple[int, JsonObject]:
        """PUT *body*."""
        return await self.send("PUT", path, body)

    async def delete(self, path: str, body: Any = None) -> tuple[int, JsonObject]:
        """DELETE *path*."""
        return await self.send("DELETE", path, body)

    async def patch(
        self, path: str, body: Any, content_type: str = "application/merge-patch+json"
    ) -> tuple[int, JsonObject]:
        """PATCH with *body*."""
        return await self.send("PATCH", path, body, content_type)


class Stream:
    """An open watch, read line by line."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, JsonObject]:
        """Return the next event; fail when none comes."""
        async with asyncio.timeout(WAIT_S):
            line = await self._response.content.readline()
        event = json.loads(line)
        return event["type"], event["object"]

    async def rest(self) -> list[JsonObject]:
        """Return all events until the server ends the watch."""
        async with asyncio.timeout(WAIT_S):
            text = await self._response.text()
        return [json.loads(line) for line in text.splitlines()]


@contextlib.asynccontextmanager
async def watching(wire: Wire, path: str) -> AsyncIterator[Stream]:
    """Open a watch and close it."""
    async with wire.session.get(path) as response:
        assert response.status == 200, await response.text()
        yield Stream(response)


class Served:
    """A running server and an authenticated client of it."""

    def __init__(self, version: str = "1.37", **settings: Any) -> None:
        self.server = ApiServer(version, **settings)
        self.api = self.server.api

    async def __aenter__(self) -> Self:
        await self.server.start()
        token = self.server.token_for("tester")
        self._session = aiohttp.ClientSession(
            self.server.url, headers={"Authorization": f"Bearer {token}"}
        )
        self.wire = Wire(self._session)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self.server.stop()


def served(
    scene: Callable[[Served], Coroutine[Any, Any, None]], version: str = "1.37", **settings: Any
) -> None:
    """Run *scene* against a server of its own."""

    async def run() -> None:
        async with Served(version, **settings) as at:
            await scene(at)

    asyncio.run(run())


async def refused(attempt: Coroutine[Any, Any, Any]) -> StatusError:
    """Return the error with which *attempt* is refused; fail when it is not."""
    try:
        await attempt
    except StatusError as error:
        return error
    raise AssertionError("the server accepted it")


def fields(error: StatusError) -> list[str]:
    """Return the fields that an error blames."""
    return [cause.field for cause in error.causes]
