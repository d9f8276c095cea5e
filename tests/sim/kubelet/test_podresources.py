"""What kubelet tells at its pod resources socket, of plugins' devices and of claims'."""

import asyncio
from typing import Any

import grpc
import pytest

from protos import podresources_v1_pb2 as wire
from tests.sim.kubelet.device_plugin_server import RESOURCE, UNHEALTHY
from tests.sim.kubelet.device_scene import DeviceScene, container, device_scene
from tests.sim.kubelet.plugin_server import DRIVER, Entry


def held(pod: Any) -> dict[str, list[str]]:
    """Return the ids of each container of a pod."""
    return {
        one.name: sorted(each for device in one.devices for each in device.device_ids)
        for one in pod.containers
    }


async def listed(node: DeviceScene) -> dict[str, Any]:
    """Return the list by the pods' names."""
    answer = await node.ask("List", wire.ListPodResourcesRequest())
    return {pod.name: pod for pod in answer.pod_resources}


def test_containers_are_told_with_their_devices() -> None:
    """Each id stands alone; init containers that have ended are left out, sidecars are not."""

    async def play() -> None:
        async with device_scene() as node:
            await node.plugin()
            side = container(1, name="side", restartPolicy="Always")
            init = container(1, name="init")
            pod = await node.pod("pod", container(2), init=(init, side))
            plain = {"name": "plain", "image": "image"}
            await node.pod("plain", plain)
            await node.node.reaches("pod", "Running")
            await node.node.reaches("plain", "Running")
            found = await listed(node)
            assert held(found["pod"]) == {
                "side": node.ids(pod, "side"),
                "app": sorted(node.ids(pod)),
            }
            assert held(found["plain"]) == {"plain": []}
            (app,) = [one for one in found["pod"].containers if one.name == "app"]
            assert {device.resource_name for device in app.devices} == {RESOURCE}
            assert [len(device.device_ids) for device in app.devices] == [1, 1]
            assert not app.devices[0].HasField("topology")

    asyncio.run(play())


def test_one_pod_can_be_asked_for() -> None:
    """It is told as in the list; one that is not here is an error."""

    async def play() -> None:
        async with device_scene() as node:
            await node.plugin()
            await node.pod("pod", container())
            await node.node.reaches("pod", "Running")
            request = wire.GetPodResourcesRequest(pod_name="pod", pod_namespace="default")
            answer = await node.ask("Get", request)
            assert answer.pod_resources == (await listed(node))["pod"]
            with pytest.raises(grpc.RpcError, match="pod a in namespace b not found"):
                await node.ask("Get", wire.GetPodResourcesRequest(pod_name="a", pod_namespace="b"))

    asyncio.run(play())


def test_healthy_devices_are_allocatable_whoever_has_them() -> None:
    """Taken ones count, ill ones do not; a device is told once for each of its NUMA nodes."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin(numa_nodes={"gpu-0": [0], "gpu-1": [0, 1]})
            await node.pod("pod", container(4))
            await node.node.reaches("pod", "Running")
            plugin.say(gpu_3=UNHEALTHY)
            await node.offers(3, 4)
            answer = await node.ask("GetAllocatableResources", wire.AllocatableResourcesRequest())
            found = sorted(
                (device.device_ids[0], *(one.ID for one in device.topology.nodes))
                for device in answer.devices
            )
            assert found == [("gpu-0", 0), ("gpu-1", 0), ("gpu-1", 1), ("gpu-2",)]
            (app,) = (await listed(node))["pod"].containers
            nodes = sorted(
                (device.device_ids[0], *(one.ID for one in device.topology.nodes))
                for device in app.devices
            )
            assert nodes == [*found, ("gpu-3",)]

    asyncio.run(play())


@pytest.mark.parametrize(("version", "left"), [("1.33", {"pod"}), ("1.34", set())])
def test_ended_pods(version: str, left: set[str]) -> None:
    """A pod that has run to its end holds nothing; up to 1.33 it is in the list all the same."""

    async def play() -> None:
        async with device_scene(version=version) as node:
            await node.plugin()
            soon = {"sim.gpuslice.io/exit-after-s": "0"}
            await node.pod("pod", container(), annotations=soon, restartPolicy="Never")
            await node.node.reaches("pod", "Succeeded")
            found = await listed(node)
            assert set(found) == left
            assert all(held(pod) == {"app": []} for pod in found.values())

    asyncio.run(play())


def prepared(uids: list[str]) -> dict[str, Entry]:
    """Answer each claim with a device that is a share."""
    return {uid: Entry(cdi=(f"example.com/gpu={uid}",), share_id="share") for uid in uids}


@pytest.mark.parametrize(("version", "share"), [("1.37", "share"), ("1.34", "")])
def test_claims_are_told_with_their_devices(version: str, share: str) -> None:
    """A claim is told by its names, with driver, pool, device, CDI name and, since 1.35, share."""

    async def play() -> None:
        async with device_scene(version=version) as scene:
            node = scene.node
            await node.registered(node.plugin(prepare=prepared))
            uid = await node.ready_claim("claim")
            await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
            (app,) = (await listed(scene))["pod"].containers
            (claim,) = app.dynamic_resources
            assert (claim.claim_namespace, claim.claim_name) == ("default", "claim")
            (device,) = claim.claim_resources
            assert device.driver_name == DRIVER
            assert [one.name for one in device.cdi_devices] == [f"example.com/gpu={uid}"]
            assert (device.pool_name, device.share_id) == ("pool", share)

    asyncio.run(play())


def test_a_release_without_claims() -> None:
    """1.33 tells nothing of claims and cannot be asked for one pod, unless a gate is on."""

    async def play() -> None:
        async with device_scene(version="1.33") as scene:
            node = scene.node
            await node.registered(node.plugin())
            await node.ready_claim("claim")
            await node.pod("pod", "claim")
            await node.reaches("pod", "Running")
            (app,) = (await listed(scene))["pod"].containers
            assert not app.dynamic_resources
            request = wire.GetPodResourcesRequest(pod_name="pod", pod_namespace="default")
            with pytest.raises(grpc.RpcError, match="PodResources API Get method disabled"):
                await scene.ask("Get", request)

    asyncio.run(play())
