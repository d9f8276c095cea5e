"""Device plugins register, are lost, come again; and what the node's status says of them."""

import asyncio
from typing import Any

import grpc
import pytest

from sim.kubelet.deviceplugins import is_extended_resource
from tests.sim.kubelet.device_plugin_server import (
    RESOURCE,
    UNHEALTHY,
    Call,
    DevicePluginServer,
)
from tests.sim.kubelet.device_scene import DeviceScene, container, device_scene
from tests.sim.kubelet.scene import until


async def refused(plugin: DevicePluginServer) -> str:
    """Register *plugin* and return with which words kubelet refuses it."""
    with pytest.raises(grpc.RpcError) as caught:
        await asyncio.to_thread(plugin.register)
    call: Any = caught.value
    assert call.code() is grpc.StatusCode.UNKNOWN
    return str(call.details())


def server(node: DeviceScene, **settings: Any) -> DevicePluginServer:
    """Return a plugin that does nothing yet and is stopped with the scene."""
    plugin = DevicePluginServer(node.node.kubelet_root, **settings)
    node.plugins.append(plugin)
    return plugin


def test_a_plugin_registers_and_the_node_offers_its_devices() -> None:
    """Kubelet asks for options, watches, and writes both figures into the node's status."""

    async def play() -> None:
        async with device_scene() as node:
            assert await node.offered() == (None, None)
            plugin = await node.plugin()
            assert plugin.calls == [Call("GetDevicePluginOptions"), Call("ListAndWatch")]
            assert await node.offered() == ("4", "4")

    asyncio.run(play())


def test_an_unhealthy_device_is_capacity_alone() -> None:
    """A device that falls ill is not allocatable until it is well again."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            plugin.say(gpu_1=UNHEALTHY)
            await node.offers(3, 4)
            plugin.say(gpu_1="Healthy")
            await node.offers(4, 4)

    asyncio.run(play())


def test_what_is_refused_at_registration() -> None:
    """Another version, a name that is none, a socket nobody listens at, in kubelet's words."""

    async def play() -> None:
        async with device_scene(dial_timeout_s=0.3) as node:
            assert await refused(server(node, version="v1alpha1")) == (
                'requested API version "v1alpha1" is not supported by kubelet. '
                'Supported version is ["v1beta1"]'
            )
            assert await refused(server(node, resource="gpu")) == (
                'the ResourceName "gpu" is invalid'
            )
            assert await refused(server(node, endpoint="nobody.sock")) == (
                "failed to dial device plugin: context deadline exceeded"
            )
            # After a refusal a plugin may register as if nothing had been.
            await node.plugin()

    asyncio.run(play())


def test_a_lost_plugin_keeps_the_capacity_for_a_while() -> None:
    """Nothing is allocatable at once; after the grace period the capacity is zero, not absent."""

    async def play() -> None:
        async with device_scene(endpoint_grace_s=0.5) as node:
            plugin = await node.plugin()
            await asyncio.to_thread(plugin.stop)
            await node.offers(0, 4)
            await node.offers(0, 0)

    asyncio.run(play())


def test_a_plugin_comes_back_within_the_grace_period() -> None:
    """A restarted plugin registers at the same socket and all is as before."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            await asyncio.to_thread(plugin.stop)
            await node.offers(0, 4)
            await asyncio.to_thread(plugin.start)
            await node.offers(4, 4)

    asyncio.run(play())


def test_a_kubelet_removes_all_sockets_when_it_starts() -> None:
    """Sockets go, files stay; nothing is allocatable until the plugin registers again."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            (plugin.folder / "notes").write_text("mine")
            # A file system may use the inode of a removed file again at once.
            made_ns = (plugin.folder / "kubelet.sock").stat().st_mtime_ns
            await node.node.kubelet.stop()
            # A socket without a listener is left where kubelet was.
            assert (plugin.folder / "kubelet.sock").is_socket()
            await node.node.kubelet.start()
            assert not plugin.socket.exists()
            assert (plugin.folder / "notes").exists()
            assert (plugin.folder / "kubelet_internal_checkpoint").exists()
            assert (plugin.folder / "kubelet.sock").stat().st_mtime_ns != made_ns
            await node.offers(0, 0)
            await until(lambda: plugin.streams == 0)
            await asyncio.to_thread(plugin.stop)
            await asyncio.to_thread(plugin.start)
            await node.offers(4, 4)

    asyncio.run(play())


def test_a_kubelet_without_a_checkpoint_takes_the_node_for_a_new_one() -> None:
    """What an existing node offered is zero until a plugin says otherwise."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            await node.node.kubelet.stop()
            (plugin.folder / "kubelet_internal_checkpoint").unlink()
            await node.node.kubelet.start()
            await node.offers(0, 0)

    asyncio.run(play())


def test_a_second_registration_takes_the_first_ones_place() -> None:
    """Up to 1.36: and when the first connection ends, it is the second that counts as lost."""

    async def play() -> None:
        async with device_scene(version="1.36") as node:
            first = await node.plugin()
            second = await node.plugin(endpoint="other.sock")
            await node.pod("pod", container())
            await node.node.reaches("pod", "Running")
            assert (first.made("Allocate"), len(second.made("Allocate"))) == ([], 1)
            await asyncio.to_thread(first.stop)
            await node.offers(0, 4)
            await until(lambda: second.streams == 0)

    asyncio.run(play())


def test_plugins_of_one_resource_stand_side_by_side() -> None:
    """From 1.37 on the end of one of two leaves the other in use."""

    async def play() -> None:
        async with device_scene() as node:
            first = await node.plugin()
            second = await node.plugin(endpoint="other.sock")
            await asyncio.to_thread(second.stop)
            await until(lambda: node.node.kubelet.device_plugins() == {RESOURCE: str(first.socket)})
            await node.pod("pod", container())
            await node.node.reaches("pod", "Running")
            assert len(first.made("Allocate")) == 1
            await asyncio.to_thread(first.stop)
            await node.offers(0, 4)

    asyncio.run(play())


def test_a_socket_that_is_still_connected_is_lost_for_good() -> None:
    """From 1.37 on a second registration of it is refused, and its end is never noticed."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            already = f"device plugin already connected: {plugin.socket}"
            assert await refused(plugin) == already
            await asyncio.to_thread(plugin.stop)
            await until(lambda: plugin.streams == 0)
            await asyncio.to_thread(plugin.listen)
            assert await refused(plugin) == already
            assert await node.offered() == ("4", "4")
            # Another socket is another plugin.
            await node.plugin(endpoint="other.sock", devices={"new": "Healthy"})

    asyncio.run(play())


def test_a_pod_on_a_node_without_the_plugin_runs_without_devices() -> None:
    """What kubelet has never heard of it does not look after."""

    async def play() -> None:
        async with device_scene() as node:
            pod = await node.pod("pod", container())
            await node.node.reaches("pod", "Running")
            assert "IDS" not in node.env(pod)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("name", "good"),
    [
        (RESOURCE, True),
        ("nvidia.com/gpu", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("example.com/", False),
        ("Example.com/gpu", False),
        ("example.com/a/b", False),
    ],
)
def test_names_of_resources(name: str, good: bool) -> None:  # noqa: FBT001
    """A resource of a plugin has a domain, and not one of Kubernetes' own."""
    assert is_extended_resource(name) is good
