"""Slices of plugins that are gone: deleted at kubelet's start and after an absence."""

import asyncio
from dataclasses import replace
from typing import Any

from tests.sim.kubelet.plugin_server import DRIVER
from tests.sim.kubelet.scene import DEADLINE_S, NODE, QUICK, Scene, scene, until


async def put_slice(node: Scene, name: str, driver: str = DRIVER, **place: Any) -> None:
    """Create a slice, of the scene's node unless *place* says otherwise."""
    spec = {
        "driver": driver,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "dev0"}],
        **(place or {"nodeName": NODE}),
    }
    await node.api.create("resourceslices", {"metadata": {"name": name}, "spec": spec})


async def slices(node: Scene) -> list[str]:
    """Return the names of all slices."""
    found, _ = await node.api.list("resourceslices")
    return [one["metadata"]["name"] for one in found]


async def slices_become(node: Scene, names: list[str]) -> None:
    """Wait until exactly these slices are left."""
    async with asyncio.timeout(DEADLINE_S):
        while await slices(node) != names:  # noqa: ASYNC110 - the server is polled
            await asyncio.sleep(0.01)


def test_kubelets_start_deletes_the_nodes_slices() -> None:
    """Slices of this node go, those of other nodes or of none stay."""

    async def play() -> None:
        async with scene() as node:
            await node.kubelet.stop()
            await put_slice(node, "all", allNodes=True)
            await put_slice(node, "mine")
            await put_slice(node, "of-another-driver", driver="nic.example.com")
            await put_slice(node, "other-node", nodeName="node-b")
            await node.kubelet.start()
            assert await slices(node) == ["all", "other-node"]

    asyncio.run(play())


def test_a_lost_connection_wipes_the_drivers_slices() -> None:
    """A plugin whose connection is gone for long loses its slices, others keep theirs."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            await node.registered(node.plugin(driver="nic.example.com"))
            await put_slice(node, "gpu")
            await put_slice(node, "nic", driver="nic.example.com")
            await asyncio.to_thread(plugin.stop_dra)
            await slices_become(node, ["nic"])
            # Only once per absence: what appears later is nobody's business until it is back.
            await put_slice(node, "gpu")
            await asyncio.sleep(2 * QUICK.wipe_after_s)
            assert await slices(node) == ["gpu", "nic"]

    asyncio.run(play())


def test_a_deregistered_plugin_loses_its_slices() -> None:
    """Removing the registration socket starts the same clock."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            await put_slice(node, "gpu")
            await asyncio.to_thread(plugin.stop)
            await slices_become(node, [])

    asyncio.run(play())


def test_a_quick_return_keeps_the_slices() -> None:
    """A plugin that is back before the time is over keeps its slices, and the clock is reset."""

    async def play() -> None:
        async with scene(timing=replace(QUICK, wipe_after_s=60.0)) as node:
            plugin = await node.registered(node.plugin())
            await put_slice(node, "gpu")
            await asyncio.to_thread(plugin.stop_dra)
            process = node.kubelet._process
            assert process is not None
            found = process.plugins.find(DRIVER)
            assert found is not None
            await until(lambda: not found.connected)
            await asyncio.to_thread(plugin.start_dra)
            await until(lambda: found.connected)
            assert await slices(node) == ["gpu"]

    asyncio.run(play())


def test_a_wipe_that_comes_back_wipes_again() -> None:
    """After a return the next absence counts anew."""

    async def play() -> None:
        async with scene() as node:
            plugin = await node.registered(node.plugin())
            await put_slice(node, "gpu")
            await asyncio.to_thread(plugin.stop)
            await slices_become(node, [])
            plugin.statuses.clear()
            await asyncio.to_thread(plugin.start)
            await node.registered(plugin)
            await put_slice(node, "gpu")
            await asyncio.to_thread(plugin.stop)
            await slices_become(node, [])

    asyncio.run(play())
