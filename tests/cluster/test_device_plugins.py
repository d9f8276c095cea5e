"""What the simulated kubelet does with device plugins, seen on the real one.

Each test has its counterpart in `tests/sim/kubelet/test_device*.py` and `test_podresources.py`.
"""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from protos import deviceplugin_v1beta1_pb2 as wire
from protos import podresources_v1_pb2 as told
from tests.cluster.cluster import RealCluster
from tests.cluster.device_stage import DeviceStage, short
from tests.patience import eventually
from tests.sim.kubelet.device_plugin_server import (
    UNHEALTHY,
    Call,
    DevicePluginServer,
    RefusedError,
)

pytestmark = pytest.mark.cluster
_REJECTED = "UnexpectedAdmissionError"
_ALL = tuple(f"gpu-{number}" for number in range(4))


@pytest.fixture
def stage(request: pytest.FixtureRequest, cluster: RealCluster) -> Iterator[DeviceStage]:
    """Return a stage with a resource of its own; nothing of it is left afterwards."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:20].strip("-")
    root = cluster.outside(cluster.kubelet_root)
    with cluster.client() as client, short(root) as link:
        made = DeviceStage(cluster, client, link, f"example.com/{name}")
        try:
            yield made
        finally:
            made.clear()


def refused(plugin: DevicePluginServer) -> str:
    """Register *plugin* and return with which words kubelet refuses it."""
    with pytest.raises(grpc.RpcError) as caught:
        plugin.register()
    call: Any = caught.value
    assert call.code() is grpc.StatusCode.UNKNOWN
    return str(call.details())


def held(pod: Any) -> dict[str, list[str]]:
    """Return the ids of each container of a pod."""
    return {
        one.name: sorted({each for device in one.devices for each in device.device_ids})
        for one in pod.containers
    }


def listed(stage: DeviceStage) -> dict[str, Any]:
    """Return the list of PodResources by the pods' names."""
    answer = stage.ask("List", told.ListPodResourcesRequest())
    return {pod.name: pod for pod in answer.pod_resources}


def test_registration_and_health(stage: DeviceStage) -> None:
    """Kubelet asks for options and watches; ill devices are capacity alone, as are lost ones."""
    assert stage.offered() == (None, None)
    plugin = stage.plugin()
    assert plugin.calls == [Call("GetDevicePluginOptions"), Call("ListAndWatch")]
    plugin.say(gpu_1=UNHEALTHY)
    stage.offers(3, 4)
    plugin.stop()
    stage.offers(0, 4)
    plugin.start()
    stage.offers(3, 4)


def test_refused_registrations(stage: DeviceStage) -> None:
    """Another version, a name that is none, a socket nobody listens at, in kubelet's words."""
    assert refused(stage.server(version="v1alpha1")) == (
        'requested API version "v1alpha1" is not supported by kubelet. '
        'Supported version is ["v1beta1"]'
    )
    assert refused(stage.server(resource="gpu")) == 'the ResourceName "gpu" is invalid'
    assert refused(stage.server(endpoint="nobody.sock")) == (
        "failed to dial device plugin: context deadline exceeded"
    )
    stage.plugin()


def test_order_of_calls(stage: DeviceStage) -> None:
    """Container by container, init containers first, whose ids are used again."""
    plugin = stage.plugin(prefer=lambda available, must, size: (must + available)[:size])
    init = (stage.container(2, name="first"), stage.container(1, name="second"))
    stage.pod("pod", stage.container(3), stage.container(1, name="more"), init=init)
    stage.reaches("pod", "Running")
    allocated = [set(call.ids) for call in plugin.made("Allocate")]
    assert [len(ids) for ids in allocated] == [2, 1, 3, 1]
    first, second, app, more = allocated
    assert second < first < app
    assert more.isdisjoint(app)
    preferred = plugin.made("GetPreferredAllocation")
    assert [call.size for call in preferred] == [2, 3, 1]
    assert preferred[0].ids == _ALL
    assert [set(call.must_include) for call in preferred] == [set(), first, set()]
    assert [call.method for call in plugin.calls[2:]] == [
        "GetPreferredAllocation",
        "Allocate",
        "Allocate",
        "GetPreferredAllocation",
        "Allocate",
        "GetPreferredAllocation",
        "Allocate",
    ]
    assert stage.ids("pod") == sorted(app)


def test_sidecars(stage: DeviceStage) -> None:
    """An init container that runs on keeps its ids, and PodResources names it."""
    stage.plugin()
    side = stage.container(2, name="side", restartPolicy="Always")
    stage.pod("pod", stage.container(2), init=(stage.container(1, name="init"), side))
    eventually(lambda: stage.status("pod").get("phase") == "Running")
    assert set(stage.ids("pod", "side")).isdisjoint(stage.ids("pod"))
    assert held(listed(stage)["pod"]) == {
        "side": stage.ids("pod", "side"),
        "app": stage.ids("pod"),
    }


def test_refused_allocations(stage: DeviceStage) -> None:
    """A pod is Failed for good, in kubelet's words; what it was given is free again."""

    def refuse(ids: list[str]) -> wire.ContainerAllocateResponse:
        if len(ids) == 1:
            raise RefusedError("one is too few")
        return wire.ContainerAllocateResponse()

    plugin = stage.plugin(allocate=refuse)
    stage.pod("pod", stage.container(3, name="a"), stage.container(1, name="b"))
    words = (
        "Allocate failed due to rpc error: code = InvalidArgument desc = one is too few, "
        "which is unexpected"
    )
    status = stage.reaches("pod", "Failed")
    assert (status["reason"], status["message"]) == (_REJECTED, f"Pod was rejected: {words}")
    assert "containerStatuses" not in status
    eventually(lambda: stage.events("pod", _REJECTED) == [words])
    stage.pod("many", stage.container(5))
    assert stage.reaches("many", "Failed")["message"] == (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable "
        f"for {stage.resource}. Requested: 5, Available: 4, which is unexpected"
    )
    stage.pod("next", stage.container(4))
    stage.reaches("next", "Running")
    stage.gone("next")
    plugin.say(**{name.replace("-", "_"): UNHEALTHY for name in _ALL})
    stage.offers(0, 4)
    stage.pod("ill", stage.container(2))
    assert stage.reaches("ill", "Failed")["message"] == (
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
        f"unhealthy devices {stage.resource}, which is unexpected"
    )


def test_refused_preferences(stage: DeviceStage) -> None:
    """A preference that fails fails the pod too."""

    def refuse(*_: object) -> list[str]:
        raise RefusedError("no idea")

    plugin = stage.plugin(prefer=refuse)
    stage.pod("pod", stage.container())
    assert stage.reaches("pod", "Failed")["message"] == (
        "Pod was rejected: Allocate failed due to device plugin GetPreferredAllocation rpc failed "
        "with err: rpc error: code = InvalidArgument desc = no idea, which is unexpected"
    )
    assert plugin.made("Allocate") == []


def test_what_the_container_gets(stage: DeviceStage) -> None:
    """Environment, mounts, devices and CDI devices of both kinds; the pod's own words win."""
    state = stage.cluster.outside("/var/lib/plugin")
    state.mkdir(exist_ok=True)
    (state / "lib").write_text("x")
    cdi = stage.cluster.outside(stage.cluster.cdi_dir)
    cdi.mkdir(parents=True, exist_ok=True)
    devices = ",".join(
        f'{{"name": "{name}", "containerEdits": {{"env": ["{name.upper()}=1", "LAST={name}"]}}}}'
        for name in ("cdi", "noted")
    )
    spec = cdi / "plugin.json"
    spec.write_text(f'{{"cdiVersion": "0.5.0", "kind": "a.b/c", "devices": [{devices}]}}')
    answer = wire.ContainerAllocateResponse(
        envs={"LIMIT": "plugin", "MINE": "1", "LAST": "plugin"},
        mounts=[
            wire.Mount(container_path="/lib", host_path="/var/lib/plugin/lib", read_only=True),
            wire.Mount(container_path="/absent", host_path="/var/lib/plugin/absent"),
        ],
        devices=[
            wire.DeviceSpec(container_path="/dev/here", host_path="/dev/null", permissions="rw")
        ],
        annotations={"cdi.k8s.io/plugin": "a.b/c=noted"},
        cdi_devices=[wire.CDIDevice(name="a.b/c=cdi")],
    )
    stage.plugin(allocate=lambda _: answer)
    env = [{"name": "LIMIT", "value": "pod"}, {"name": "LAST", "value": "pod"}]
    stage.pod("pod", stage.container(env=env))
    stage.reaches("pod", "Running")
    got = stage.env("pod")
    assert (got["LIMIT"], got["MINE"], got["CDI"], got["NOTED"]) == ("pod", "1", "1", "1")
    assert got["LAST"] == "noted"
    lines = stage.output("pod").splitlines()
    assert any(line.startswith("mount ") and " on /lib " in line for line in lines)
    assert any(line.startswith("dev crw") and line.endswith(" here") for line in lines)
    # What is to be mounted and is not there becomes an empty folder.
    assert (state / "absent").is_dir()
    spec.unlink()


def test_prestart(stage: DeviceStage) -> None:
    """A plugin that asks for it hears of the ids before the container is made."""
    heard: list[str] = []

    def say(ids: list[str]) -> None:
        heard.extend(ids)
        if len(heard) == 1:
            raise RefusedError("busy")

    stage.plugin(pre_start=say)
    stage.pod("pod", stage.container())
    stage.reaches("pod", "Running")
    assert heard == stage.ids("pod") * 2
    words = (
        "Error: device plugin PreStartContainer rpc failed with err: "
        "rpc error: code = InvalidArgument desc = busy"
    )
    assert stage.events("pod", "Failed") == [words]


def test_without_a_plugin(stage: DeviceStage) -> None:
    """A pod on a node whose kubelet knows no such resource runs without devices."""
    stage.pod("pod", stage.container())
    stage.reaches("pod", "Running")
    assert "IDS" not in stage.env("pod")


def test_pod_resources(stage: DeviceStage) -> None:
    """List, Get and GetAllocatableResources."""
    plugin = stage.plugin(numa_nodes={"gpu-0": [0], "gpu-1": [0, 1]})
    stage.pod("pod", stage.container(4))
    stage.reaches("pod", "Running")
    plugin.say(gpu_3=UNHEALTHY)
    stage.offers(3, 4)
    (app,) = listed(stage)["pod"].containers
    nodes = sorted(
        (device.device_ids[0], *(one.ID for one in device.topology.nodes)) for device in app.devices
    )
    healthy = [("gpu-0", 0), ("gpu-1", 0), ("gpu-1", 1), ("gpu-2",)]
    assert nodes == [*healthy, ("gpu-3",)]
    answer = stage.ask("GetAllocatableResources", told.AllocatableResourcesRequest())
    found = sorted(
        (device.device_ids[0], *(one.ID for one in device.topology.nodes))
        for device in answer.devices
        if device.resource_name == stage.resource
    )
    assert found == healthy
    request = told.GetPodResourcesRequest(pod_name="pod", pod_namespace="default")
    if stage.release.tells_claims:
        one = stage.ask("Get", request).pod_resources
        assert held(one) == {"app": list(_ALL)}
        absent = told.GetPodResourcesRequest(pod_name="a", pod_namespace="b")
        with pytest.raises(grpc.RpcError, match="pod a in namespace b not found"):
            stage.ask("Get", absent)
    else:
        with pytest.raises(grpc.RpcError, match="PodResources API Get method disabled"):
            stage.ask("Get", request)


def test_ended_pods(stage: DeviceStage) -> None:
    """A pod that has run to its end holds nothing; up to 1.33 it is in the list all the same."""
    stage.plugin()
    stage.pod("pod", stage.container(4, command=["true"]), restartPolicy="Never")
    stage.reaches("pod", "Succeeded")
    found = listed(stage)
    assert ("pod" in found) is not stage.release.lists_active_pods
    assert all(held(found[name]) == {"app": []} for name in found if name == "pod")
    stage.pod("next", stage.container(4))
    stage.reaches("next", "Running")


def test_a_restart(stage: DeviceStage) -> None:
    """Sockets go, files stay; pods keep what they have; the plugin has to register anew."""
    plugin = stage.plugin()
    stage.pod("pod", stage.container(3))
    stage.reaches("pod", "Running")
    ids = stage.ids("pod")
    (stage.folder / "notes").write_text("mine")

    def left() -> None:
        # A socket without a listener is left where kubelet was.
        assert (stage.folder / "kubelet.sock").is_socket()
        assert plugin.socket.is_socket()

    stage.restart_kubelet(left)
    assert not plugin.socket.exists()
    assert (stage.folder / "notes").exists()
    assert (stage.folder / "kubelet_internal_checkpoint").exists()
    stage.offers(0, 0)
    eventually(lambda: plugin.streams == 0)
    # Kubelet's first look at its pods is over once the list names this one.
    eventually(lambda: "pod" in listed(stage))
    assert held(listed(stage)["pod"]) == {"app": ids}
    assert stage.status("pod")["phase"] == "Running"
    plugin.stop()
    plugin.start()
    stage.offers(4, 4)
    stage.pod("other", stage.container())
    stage.reaches("other", "Running")
    assert stage.ids("other")[0] not in ids
    assert len(plugin.made("Allocate")) == 2
    assert stage.status("pod")["phase"] == "Running"


def test_a_restart_with_an_init_container(stage: DeviceStage) -> None:
    """A running pod fails if an init container of it had devices and the plugin is not back."""
    stage.plugin()
    stage.pod("pod", stage.container(), init=(stage.container(name="init"),))
    stage.reaches("pod", "Running")
    stage.restart_kubelet()
    status = stage.reaches("pod", "Failed")
    assert status["reason"] == _REJECTED
    assert "no healthy devices present" in status["message"]


def test_a_second_registration(stage: DeviceStage) -> None:
    """At another socket: up to 1.36 it replaces the first, and is lost with it."""
    first = stage.plugin()
    second = stage.plugin(endpoint="second.sock")
    stage.pod("pod", stage.container())
    stage.reaches("pod", "Running")
    assert (first.made("Allocate"), len(second.made("Allocate"))) == ([], 1)
    first.stop()
    if stage.release.keeps_endpoints:
        stage.pod("next", stage.container())
        stage.reaches("next", "Running")
        assert len(second.made("Allocate")) == 2
        assert second.streams == 1
    else:
        stage.offers(0, 4)
        eventually(lambda: second.streams == 0)


def test_the_same_socket_twice(stage: DeviceStage) -> None:
    """While its connection stands: 1.37 refuses, and never notices the end of the first."""
    plugin = stage.plugin()
    if not stage.release.keeps_endpoints:
        plugin.register()
        eventually(lambda: plugin.streams == 2)
        return
    already = f"device plugin already connected: {_inside(stage, plugin)}"
    assert refused(plugin) == already
    plugin.stop()
    eventually(lambda: plugin.streams == 0)
    plugin.listen()
    assert refused(plugin) == already
    assert stage.offered() == ("4", "4")


def _inside(stage: DeviceStage, plugin: DevicePluginServer) -> str:
    return str(stage.cluster.kubelet_root / "device-plugins" / plugin.endpoint)
