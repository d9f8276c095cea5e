"""How pods get devices of plugins: order of calls, choice of ids, refusals, restarts, the end."""

import asyncio
import json

import pytest

from protos import deviceplugin_v1beta1_pb2 as wire
from tests.sim.kubelet.device_plugin_server import RESOURCE, UNHEALTHY, Call, RefusedError
from tests.sim.kubelet.device_scene import (
    REJECTED,
    DeviceScene,
    asking,
    container,
    device_scene,
)
from tests.sim.kubelet.scene import until


async def running(node: DeviceScene, name: str = "pod") -> None:
    """Wait until a pod runs."""
    await node.node.reaches(name, "Running")


def test_each_container_is_allocated_by_itself() -> None:
    """Preference and allocation follow each other for one container, then for the next."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin(prefer=lambda available, _, size: available[-size:])
            pod = await node.pod("pod", container(name="a"), container(2, name="b"))
            await running(node)
            all_four = tuple(f"gpu-{number}" for number in range(4))
            assert plugin.calls[2:] == [
                Call("GetPreferredAllocation", all_four, (), 1),
                Call("Allocate", ("gpu-3",)),
                Call("GetPreferredAllocation", all_four[:3], (), 2),
                Call("Allocate", ("gpu-1", "gpu-2")),
            ]
            assert (node.ids(pod, "a"), node.ids(pod, "b")) == (["gpu-3"], ["gpu-1", "gpu-2"])

    asyncio.run(play())


def test_without_preference_free_ids_are_taken() -> None:
    """A plugin that prefers nothing, too little or what is not free gets some of the free ids."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            pods = [await node.pod(f"pod-{number}", container(2)) for number in range(2)]
            await running(node, "pod-1")
            await running(node, "pod-0")
            assert sorted(node.ids(pods[0]) + node.ids(pods[1])) == sorted(plugin.devices)
            assert plugin.made("GetPreferredAllocation") == []
            liked = ["nonsense", *node.ids(pods[1]), node.ids(pods[0])[0]]
            await node.gone("pod-0")
            plugin.prefer = lambda *_: liked
            await asyncio.to_thread(plugin.stop)
            await node.offers(0, 4)
            await asyncio.to_thread(plugin.start)
            await node.offers(4, 4)
            again = await node.pod("again", container(2))
            await running(node, "again")
            assert set(node.ids(again)).isdisjoint(node.ids(pods[1]))

    asyncio.run(play())


def test_devices_of_init_containers_are_used_again() -> None:
    """Init containers come first; what they had must be part of what later containers get."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin(
                prefer=lambda available, must, size: (must + available)[:size]
            )
            pod = await node.pod(
                "pod",
                container(3, name="app"),
                container(1, name="more"),
                init=(container(2, name="first"), container(1, name="second")),
            )
            await running(node)
            allocated = [set(call.ids) for call in plugin.made("Allocate")]
            assert [len(ids) for ids in allocated] == [2, 1, 3, 1]
            first, second, app, more = allocated
            assert second < first < app
            assert more.isdisjoint(app)
            preferred = plugin.made("GetPreferredAllocation")
            # Where reused ids suffice nobody is asked.
            assert [call.size for call in preferred] == [2, 3, 1]
            assert set(preferred[1].must_include) == first
            assert set(node.ids(pod, "app")) == app

    asyncio.run(play())


def test_devices_of_a_sidecar_are_its_own() -> None:
    """An init container that runs on keeps what it has."""

    async def play() -> None:
        async with device_scene() as node:
            await node.plugin()
            side = container(2, name="side", restartPolicy="Always")
            pod = await node.pod("pod", container(2), init=(side,))
            await running(node)
            assert set(node.ids(pod, "side")).isdisjoint(node.ids(pod))

    asyncio.run(play())


def test_a_refused_allocation_fails_the_pod() -> None:
    """The pod is Failed for good, says why in kubelet's words, and its devices are free again."""

    def refuse(ids: list[str]) -> wire.ContainerAllocateResponse:
        message = f"no binding pod for {len(ids)}"
        raise RefusedError(message)

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            plugin.allocate = refuse
            pod = await node.pod("pod", container(3))
            status = await node.rejected("pod")
            words = (
                "Allocate failed due to rpc error: code = InvalidArgument "
                "desc = no binding pod for 3, which is unexpected"
            )
            assert status["message"] == f"Pod was rejected: {words}"
            assert await node.node.events(REJECTED) == [words]
            assert node.node.container(pod) is None
            plugin.allocate = lambda _: wire.ContainerAllocateResponse()
            await node.pod("next", container(4))
            await running(node, "next")
            assert len(plugin.made("Allocate")) == 2
            await node.gone("pod")

    asyncio.run(play())


def test_a_second_container_that_fails_takes_the_first_ones_devices_back() -> None:
    """What was allocated to a rejected pod is free for the next one."""

    def once(ids: list[str]) -> wire.ContainerAllocateResponse:
        if len(ids) == 1:
            raise RefusedError("one is too few")
        return wire.ContainerAllocateResponse()

    async def play() -> None:
        async with device_scene() as node:
            await node.plugin(allocate=once)
            await node.pod("pod", container(3, name="a"), container(1, name="b"))
            await node.rejected("pod")
            await node.pod("next", container(4))
            await running(node, "next")

    asyncio.run(play())


def test_refusals_of_kubelets_own() -> None:
    """Too few free devices, none healthy, and a preference that fails."""

    def refuse(*_: object) -> list[str]:
        raise RefusedError("no idea")

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            await node.pod("many", container(5))
            assert (await node.rejected("many"))["message"] == (
                "Pod was rejected: Allocate failed due to requested number of devices unavailable "
                f"for {RESOURCE}. Requested: 5, Available: 4, which is unexpected"
            )
            plugin.say(**{f"gpu_{number}": UNHEALTHY for number in range(4)})
            await node.offers(0, 4)
            await node.pod("ill", container())
            assert (
                "no healthy devices present; cannot allocate unhealthy devices"
                in (await node.rejected("ill"))["message"]
            )
            other = await node.plugin(resource="example.com/b", endpoint="b.sock", prefer=refuse)
            await node.pod("unsure", asking({"example.com/b": "1"}))
            assert (
                "device plugin GetPreferredAllocation rpc failed with err: "
                "rpc error: code = InvalidArgument desc = no idea"
            ) in (await node.rejected("unsure"))["message"]
            assert other.made("Allocate") == []

    asyncio.run(play())


def test_the_container_gets_what_the_plugin_answers() -> None:
    """Environment, mounts, devices, annotations and CDI devices; the pod's own words win."""

    async def play() -> None:
        async with device_scene() as node:
            root = node.node.root
            node.node.spec_file("cdi")
            node.node.spec_file("noted")
            for path in ("opt/lib", "opt/other", "dev/gpu0"):
                (root / path).parent.mkdir(exist_ok=True)
                (root / path).write_text(path)
            answer = wire.ContainerAllocateResponse(
                envs={"LIMIT": "plugin", "MINE": "1"},
                mounts=[
                    wire.Mount(container_path="/lib", host_path="/opt/lib", read_only=True),
                    wire.Mount(container_path="/other", host_path="/opt/lib"),
                ],
                devices=[
                    wire.DeviceSpec(
                        container_path="/dev/here", host_path="/dev/gpu0", permissions="rw"
                    )
                ],
                annotations={"cdi.k8s.io/plugin": "example.com/gpu=noted", "note": "x"},
                cdi_devices=[wire.CDIDevice(name="example.com/gpu=cdi")],
            )
            await node.plugin(allocate=lambda _: answer)
            app = container(
                env=[{"name": "LIMIT", "value": "pod"}],
                volumeMounts=[{"name": "v", "mountPath": "/other"}],
            )
            volume = {"name": "v", "hostPath": {"path": "/opt/other"}}
            pod = await node.pod("pod", app, volumes=[volume])
            await running(node)
            view = node.node.container(pod)
            assert view is not None
            assert (view.env["LIMIT"], view.env["MINE"]) == ("pod", "1")
            # The CDI device that is named last has the last word about the environment.
            assert view.cdi_devices == ("example.com/gpu=cdi", "example.com/gpu=noted")
            assert view.env["CLAIM"] == "noted"
            assert view.annotations["note"] == "x"
            mounts = {mount.container_path: mount for mount in view.mounts}
            assert mounts["/lib"].options == ("rbind", "ro")
            assert mounts["/lib"].source == str(root / "opt/lib")
            assert mounts["/other"].host_path == "/opt/other"
            (device,) = view.devices
            assert (device.path, device.host_path, device.permissions) == (
                "/dev/here",
                "/dev/gpu0",
                "rw",
            )

    asyncio.run(play())


def test_a_device_that_the_host_has_not_keeps_the_container_waiting() -> None:
    """The runtime cannot make it; kubelet tries again."""

    async def play() -> None:
        async with device_scene() as node:
            spec = wire.DeviceSpec(container_path="/dev/g", host_path="/dev/g", permissions="rw")
            answer = wire.ContainerAllocateResponse(devices=[spec])
            plugin = await node.plugin(allocate=lambda _: answer)
            await node.pod("pod", container())
            await node.node.told("Failed", "lstat /dev/g: no such file or directory")
            (node.node.root / "dev").mkdir()
            (node.node.root / "dev/g").write_text("")
            await running(node)
            assert len(plugin.made("Allocate")) == 1

    asyncio.run(play())


def test_a_container_starts_after_prestart() -> None:
    """A plugin that asks for it hears of the ids before each container, and may say no."""
    said: list[str] = ["busy"]

    def say(ids: list[str]) -> None:
        if said:
            raise RefusedError(said[0])

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin(pre_start=say)
            pod = await node.pod("pod", container(2))
            message = await node.node.told("Failed", "PreStartContainer")
            assert message == (
                "Error: device plugin PreStartContainer rpc failed with err: "
                "rpc error: code = InvalidArgument desc = busy"
            )
            said.clear()
            await running(node)
            assert plugin.calls[-1] == Call("PreStartContainer", tuple(node.ids(pod)))

    asyncio.run(play())


def test_devices_are_free_once_the_pod_has_ended() -> None:
    """A pod that has run to its end, or is deleted, holds nothing."""

    async def play() -> None:
        async with device_scene() as node:
            await node.plugin()
            soon = {"sim.gpuslice.io/exit-after-s": "0"}
            await node.pod("short", container(4), annotations=soon, restartPolicy="Never")
            await node.node.reaches("short", "Succeeded")
            await node.pod("next", container(4))
            await running(node, "next")
            await node.gone("next")
            await node.pod("last", container(4))
            await running(node, "last")

    asyncio.run(play())


def test_allocations_outlive_a_restart() -> None:
    """A running pod keeps its devices, although its plugin is not back, and nothing is asked."""

    async def play() -> None:
        async with device_scene() as node:
            plugin = await node.plugin()
            pod = await node.pod("pod", container(3))
            await running(node)
            held = node.ids(pod)
            await node.node.kubelet.restart()
            await node.offers(0, 0)
            assert await node.node.phase("pod") == "Running"
            await asyncio.to_thread(plugin.stop)
            await asyncio.to_thread(plugin.start)
            await node.offers(4, 4)
            other = await node.pod("other", container())
            await running(node, "other")
            assert node.ids(other)[0] not in held
            assert len(plugin.made("Allocate")) == 2
            checkpoint = plugin.folder / "kubelet_internal_checkpoint"
            entries = json.loads(checkpoint.read_bytes())["Data"]["PodDeviceEntries"]
            found = {one["PodUID"]: one["DeviceIDs"]["-1"] for one in entries}
            assert found[pod["metadata"]["uid"]] == held

    asyncio.run(play())


def test_a_resource_that_is_held_and_has_no_plugin_any_more() -> None:
    """A kubelet that knows it from a running pod alone refuses it to others."""

    async def play() -> None:
        async with device_scene(endpoint_grace_s=0.2) as node:
            plugin = await node.plugin()
            await node.pod("pod", container())
            await running(node)
            await asyncio.to_thread(plugin.stop)
            await node.offers(0, 0)
            await node.node.kubelet.restart()
            await node.pod("other", container())
            message = (await node.rejected("other"))["message"]
            assert f"cannot allocate unregistered device {RESOURCE}" in message
            assert await node.node.phase("pod") == "Running"

    asyncio.run(play())


def test_a_container_that_does_not_run_at_a_restart_fails_its_pod() -> None:
    """After a reboot, or with an init container that has ended, the plugin must be back first."""

    async def play() -> None:
        async with device_scene() as node:
            await node.plugin()
            await node.pod("rebooted", container())
            await running(node, "rebooted")
            await node.node.kubelet.stop()
            node.node.runtime.reset()
            await node.node.kubelet.start()
            status = await node.rejected("rebooted")
            assert "no healthy devices present" in status["message"]

    async def play_init() -> None:
        async with device_scene() as node:
            await node.plugin()
            pod = await node.pod("pod", container(), init=(container(name="init"),))
            await running(node)
            await node.node.kubelet.restart()
            await node.rejected("pod")
            await until(lambda: not _runs(node, pod))

    asyncio.run(play())
    asyncio.run(play_init())


def _runs(node: DeviceScene, pod: dict[str, dict[str, str]]) -> bool:
    view = node.node.container(pod)
    return view is not None and view.exit_code is None


@pytest.mark.parametrize(("version", "asked"), [("1.34", 1), ("1.35", 0)])
def test_resources_that_a_claim_serves(version: str, asked: int) -> None:
    """From 1.35 on a plugin is not asked for what the pod's status says a claim serves."""

    async def play() -> None:
        async with device_scene(version=version) as node:
            plugin = await node.plugin()
            body = {
                "metadata": {"name": "pod", "namespace": "default"},
                "spec": {"containers": [container()], "nodeName": ""},
            }
            mapping = {"containerName": "app", "resourceName": RESOURCE, "requestName": "r"}
            await node.node.api.create("pods", body)
            claim = {"resourceClaimName": "extended", "requestMappings": [mapping]}
            patch = {"status": {"extendedResourceClaimStatus": claim}}
            await node.node.api.patch(
                "pods", "pod", patch, namespace="default", subresource="status"
            )
            await node.node.api.bind("pod", "default", node="node-a")
            await node.node.told("FailedPrepareDynamicResources", "extended")
            assert len(plugin.made("Allocate")) == asked

    asyncio.run(play())
