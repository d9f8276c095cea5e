"""Our own client and reflector against the server, through the faults it can inject."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.config import kubeconfig
from kube.errors import ConflictError, InvalidError, NotFoundError, UnauthorizedError
from kube.objects import JsonObject, ObjectKey
from kube.reflector import Pace, Reflector
from tests.sim.apiserver.builders import WAIT_S, Served, device, resource_slice, served

QUICK = Pace(first_wait_s=0.01, max_wait_s=0.05)


def _client(at: Served, folder: Path) -> Client:
    path = folder / "kubeconfig"
    at.server.write_kubeconfig(path, user="driver")
    return Client(kubeconfig(str(path)), user_agent="test")


def test_our_client_meets_the_answers_it_expects(tmp_path: Path) -> None:
    """Bodies come through, and each refusal is the error that callers decide by."""

    def use(client: Client) -> None:
        made = json.loads(client.create(paths.resource_slices(), resource_slice(device())))
        assert made["metadata"]["generation"] == 1
        path = paths.resource_slices("slice")
        patch = {"metadata": {"labels": {"a": "b"}}}
        client.patch(path, patch, content_type=MERGE_PATCH)
        with pytest.raises(ConflictError):
            client.replace(path, made)
        with pytest.raises(InvalidError):
            client.create(paths.resource_slices(), resource_slice(device("No"), name="b"))
        with pytest.raises(ConflictError):
            client.delete(path, uid="another")
        client.delete(path, uid=made["metadata"]["uid"])
        with pytest.raises(NotFoundError):
            client.get(path)
        assert client.server_version() == "v1.37.0"

    async def scene(at: Served) -> None:
        client = _client(at, tmp_path)
        try:
            await asyncio.to_thread(use, client)
            at.server.revoke("driver")
            with pytest.raises(UnauthorizedError):
                await asyncio.to_thread(client.server_version)
        finally:
            client.close()

    served(scene)


def _generation(item: JsonObject) -> int:
    generation: int = item["spec"]["pool"]["generation"]
    return generation


async def _until(reflector: Reflector[int], expected: dict[str, int]) -> None:
    wanted = {ObjectKey("", name): value for name, value in expected.items()}
    async with asyncio.timeout(WAIT_S):
        while True:
            if reflector.items() == wanted:
                return
            await asyncio.sleep(0.002)


async def _break_connections(at: Served) -> None:
    at.server.drop_watches()


async def _forget_history(at: Served) -> None:
    await at.server.pause()
    await at.api.delete("resourceslices", "b")
    await at.api.create("resourceslices", _slice("b", 7))
    at.server.compact()
    await at.server.resume()


async def _fail_requests(at: Served) -> None:
    at.server.fail_next(3, 503)
    at.server.drop_watches()


def _slice(name: str, generation: int) -> JsonObject:
    pool = {"name": "node-a", "generation": generation, "resourceSliceCount": 1}
    return resource_slice(device(), name=name, pool=pool)


@pytest.mark.parametrize("fault", [_break_connections, _forget_history, _fail_requests])
def test_our_reflector_comes_through_faults(fault: Any, tmp_path: Path) -> None:
    """Whatever breaks, the copy is right again afterwards, deletions included."""

    async def scene(at: Served) -> None:
        for name in ("a", "b"):
            await at.api.create("resourceslices", _slice(name, 1))
        client = _client(at, tmp_path)
        reflector = Reflector(
            client, paths.resource_slices(), params={}, decode=_generation, pace=QUICK
        )
        reflector.start()
        try:
            await _until(reflector, {"a": 1, "b": 1})
            await fault(at)
            await at.api.delete("resourceslices", "a")
            await at.api.update("resourceslices", _slice("b", 3))
            await at.api.create("resourceslices", _slice("c", 1))
            await _until(reflector, {"b": 3, "c": 1})
        finally:
            await asyncio.to_thread(reflector.stop)
            client.close()

    served(scene)
