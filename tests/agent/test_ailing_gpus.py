"""A GPU that fails under a claim: what slices, kubelet and the claim are told, and for how long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from dra.offer import TAINT_DUAL, TAINT_UNHEALTHY
from kube.paths import nodes
from protos import dra_health_v1_pb2, dra_health_v1_pb2_grpc
from tests.agent.control_plane import Claim, share
from tests.agent.host import NODE
from tests.agent.scene import Scene
from tests.patience import eventually

UNHEALTHY = 2
QUICK = ("--scan-interval-s", "0.2", "--xid-recovery-s", "0.1")


def taints(stage: Scene) -> dict[str, list[tuple[str, str, str]]]:
    """Return key, value and effect of the taints of each published device that has any."""
    return {
        device["name"]: [(each["key"], each["value"], each["effect"]) for each in device["taints"]]
        for item in stage.control.slices()
        for device in item["spec"].get("devices", ())
        if "taints" in device
    }


def offered(stage: Scene) -> set[str]:
    """Return the names of the published devices."""
    slices = stage.control.slices()
    return {device["name"] for item in slices for device in item["spec"].get("devices", ())}


def condition(stage: Scene, claim: Claim) -> tuple[str, str] | None:
    """Return status and reason of what *claim* says of its only device."""
    api = stage.control.server.api
    found = stage.control.run(api.get("resourceclaims", claim.name, claim.namespace))
    devices = found["status"].get("devices", ())
    if not devices:
        return None
    ((only,),) = [each["conditions"] for each in devices]
    assert only["type"] == "Ready"
    return only["status"], only["reason"]


@contextmanager
def health(stage: Scene) -> Iterator[Callable[[], dict[str, tuple[int, str]]]]:
    """Yield what returns kubelet's next message: health and text of each device."""
    with grpc.insecure_channel(f"unix:{stage.host.plugin / 'dra.sock'}") as channel:
        stub = dra_health_v1_pb2_grpc.DRAResourceHealthStub(channel)
        stream = stub.NodeWatchResources(dra_health_v1_pb2.NodeWatchResourcesRequest())

        def following() -> dict[str, tuple[int, str]]:
            devices = next(stream).devices
            return {each.device.device_name: (each.health, each.message) for each in devices}

        yield following
        stream.cancel()


def prepared(stage: Scene, index: int) -> Claim:
    """Return a claim that holds a share of GPU *index*."""
    claim = stage.control.claim(share(stage.host.device(index)))
    assert stage.kubelet.prepare(claim).error == ""
    return claim


def test_an_xid_is_told_to_all_and_so_is_its_end(stage: Scene) -> None:
    """Taint, health stream and condition say the same; the other GPU's claim is not written."""
    stage.host.set_gpus("gpus: [{profile: l4}, {profile: a10}]")
    stage.started(*QUICK, "--unhealthy-effect", "NoExecute")
    claim, other = prepared(stage, 0), prepared(stage, 1)
    ill, well = stage.host.device(0), stage.host.device(1)
    eventually(lambda: offered(stage) == {ill, well})
    with health(stage) as following:
        assert {state for state, _ in following().values()} == {1}

        stage.host.set_gpus(
            "gpus: [{profile: l4, xids: [79], recovery_action: gpu-reset}, {profile: a10}]"
        )

        eventually(lambda: following()[ill][0] == UNHEALTHY)
        eventually(lambda: (condition(stage, claim) or ("",))[0] == "False")
        ((key, value, effect),) = taints(stage)[ill]
        assert (key, effect) == (TAINT_UNHEALTHY, "NoExecute")
        assert value in {"Xid79", "GpuResetNeeded"}
        assert condition(stage, other) is None
        assert well not in taints(stage)

        stage.host.set_gpus("gpus: [{profile: l4, xids: [79]}, {profile: a10}]")

        eventually(lambda: taints(stage) == {})
        eventually(lambda: condition(stage, claim) == ("True", "Recovered"))
        eventually(lambda: {state for state, _ in following().values()} == {1})
    assert stage.kubelet.unprepare(claim) == stage.kubelet.unprepare(other) == ""


def test_a_gpu_that_fails_stays_tainted_until_it_answers(stage: Scene) -> None:
    """NVML's error is the reason; a running claim can be given back meanwhile."""
    stage.host.set_gpus("gpus: [{profile: l4}, {profile: a10}]")
    stage.started(*QUICK)
    claim = prepared(stage, 0)
    both, ill = {stage.host.device(0), stage.host.device(1)}, stage.host.device(0)
    eventually(lambda: offered(stage) == both)
    lost = "{nvmlDeviceGetMemoryInfo: GPU_IS_LOST, nvmlDeviceGetName: GPU_IS_LOST}"

    stage.host.set_gpus(f"gpus: [{{profile: l4, errors: {lost}}}, {{profile: a10}}]")

    eventually(lambda: taints(stage) == {ill: [(TAINT_UNHEALTHY, "GpuIsLost", "NoSchedule")]})
    eventually(lambda: condition(stage, claim) == ("False", "GpuIsLost"))
    assert offered(stage) == both
    assert stage.kubelet.unprepare(claim) == ""
    stage.host.set_gpus("gpus: [{profile: l4}, {profile: a10}]")
    eventually(lambda: taints(stage) == {})


def test_a_gpu_that_is_gone_is_withdrawn_after_its_last_claim(stage: Scene) -> None:
    """It is tainted while a claim holds it, over a restart of the agent too."""
    stage.host.set_gpus("gpus: [{profile: l4}, {profile: a10}]")
    gone, left = stage.host.device(1), stage.host.device(0)
    first = stage.started(*QUICK)
    claim = prepared(stage, 1)
    eventually(lambda: offered(stage) == {gone, left})

    stage.host.set_gpus("gpus: [{profile: l4}]")

    tainted = {gone: [(TAINT_UNHEALTHY, "GpuGone", "NoSchedule")]}
    eventually(lambda: taints(stage) == tainted)
    assert first.terminate() == 0
    second = stage.started(*QUICK)
    second.wait_logged("inventory read")
    eventually(lambda: condition(stage, claim) == ("False", "GpuGone"))
    assert taints(stage) == tainted
    assert stage.kubelet.unprepare(claim) == ""
    eventually(lambda: offered(stage) == {left})


def test_a_driver_that_goes_takes_no_new_work(stage: Scene) -> None:
    """All devices are tainted until it is back, and claims are told."""
    stage.host.set_gpus("gpus: [{profile: l4}]")
    stage.started(*QUICK)
    claim = prepared(stage, 0)
    eventually(lambda: offered(stage) == {stage.host.device(0)})

    stage.host.set_gpus("errors: {all: DRIVER_NOT_LOADED}\ngpus: [{profile: l4}]")

    eventually(lambda: [each for ((_, each, _),) in taints(stage).values()] != [])
    eventually(lambda: (condition(stage, claim) or ("",))[0] == "False")
    stage.host.set_gpus("gpus: [{profile: l4}]")
    eventually(lambda: taints(stage) == {})
    eventually(lambda: condition(stage, claim) == ("True", "Recovered"))


def set_allocatable(stage: Scene, amounts: dict[str, str]) -> None:
    """Have the Node offer *amounts* of extended resources."""
    api = stage.control.server.api
    node: dict[str, Any] = stage.control.run(api.get("nodes", NODE))
    body = {**node, "status": {"allocatable": amounts, "capacity": amounts}}
    stage.control.run(api.update("nodes", body, subresource="status"))


def test_gpus_that_a_device_plugin_offers_too_take_no_new_work(stage: Scene) -> None:
    """The taint names the resource, and the Node says what to do; it goes with the plugin."""
    stage.host.set_gpus("gpus: [{profile: l4}]")
    stage.started(*QUICK)
    device = stage.host.device(0)
    eventually(lambda: offered(stage) == {device})

    set_allocatable(stage, {"nvidia.com/gpu": "1", "cpu": "2"})

    rival = [(TAINT_DUAL, "nvidia.com-gpu", "NoSchedule")]
    eventually(lambda: taints(stage) == {device: rival})
    set_allocatable(stage, {"nvidia.com/gpu": "0", "cpu": "2"})
    eventually(lambda: taints(stage) == {})


def test_an_administrator_may_allow_two_to_offer_a_gpu(stage: Scene) -> None:
    """With --allow-dual nobody looks at what else the Node offers."""
    stage.host.set_gpus("gpus: [{profile: l4}]")
    set_allocatable(stage, {"nvidia.com/gpu": "1"})
    stage.started(*QUICK, "--allow-dual")
    eventually(lambda: offered(stage) == {stage.host.device(0)})
    assert taints(stage) == {}
    paths = {record.path for record in stage.control.call(lambda: stage.control.server.requests)}
    assert nodes() not in paths
