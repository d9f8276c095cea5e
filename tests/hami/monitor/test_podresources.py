"""Kubelet's PodResources, over its socket and in its protocol."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import grpc
import pytest

from hami.monitor.podresources import (
    ContainerResources,
    HeldClaim,
    HeldClaimDevice,
    PodResources,
    PodResourcesError,
)
from protos import podresources_v1_pb2 as wire
from protos.podresources_v1_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from tests.patience import eventually


class Kubelet(PodResourcesListerServicer):
    """Answers as an old kubelet: with `List` alone."""

    def __init__(self, *pods: wire.PodResources, hangs: bool = False) -> None:
        self.answer = wire.ListPodResourcesResponse(pod_resources=pods)
        self.hangs = hangs

    def List(  # noqa: N802 - kubelet's name
        self, _request: wire.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> wire.ListPodResourcesResponse:
        """Return the pods."""
        while self.hangs and context.is_active():
            time.sleep(0.01)
        return self.answer

    def Get(  # noqa: N802 - kubelet's name
        self, _request: wire.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> NoReturn:
        """Know no such call."""
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method Get")

    def GetAllocatableResources(  # noqa: N802 - kubelet's name
        self, _request: wire.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> NoReturn:
        """Know no such call."""
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method GetAllocatableResources")


@contextmanager
def serving(socket: Path, kubelet: Kubelet) -> Iterator[None]:
    """Serve at *socket* as kubelet does, and leave the socket there as it does."""
    server = grpc.server(
        ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", 16 * 2**20)]
    )
    add_PodResourcesListerServicer_to_server(kubelet, server)
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


def container(name: str, *devices: wire.ContainerDevices) -> wire.ContainerResources:
    """Return a container with these devices."""
    return wire.ContainerResources(name=name, devices=devices)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    """Return where the socket is."""
    return tmp_path / "kubelet.sock"


def test_devices_and_claims_of_containers(socket: Path) -> None:
    """Ids over all NUMA nodes, claims with their shares, and those without a driver left out."""
    resource = wire.ClaimResource(
        driver_name="gpuslice.io", pool_name="node-1", device_name="gpu-0", share_id="s-1"
    )
    whole = wire.ClaimResource(driver_name="gpuslice.io", pool_name="node-1", device_name="gpu-1")
    main = wire.ContainerResources(
        name="main",
        dynamic_resources=[
            wire.DynamicResource(
                claim_name="c",
                claim_namespace="team",
                claim_resources=[resource, whole, wire.ClaimResource()],
            )
        ],
    )
    side = container(
        "side",
        wire.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["GPU-a-0"]),
        wire.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["GPU-b-1"]),
        wire.ContainerDevices(resource_name="rdma/nic", device_ids=["x"]),
    )
    pod = wire.PodResources(name="p", namespace="team", containers=[main, side])
    with serving(socket, Kubelet(pod)):
        client = PodResources(socket)
        found = client.containers()
        client.close()
    one = HeldClaimDevice(driver="gpuslice.io", pool="node-1", device="gpu-0", share_id="s-1")
    other = HeldClaimDevice(driver="gpuslice.io", pool="node-1", device="gpu-1", share_id=None)
    assert found == (
        ContainerResources(
            namespace="team",
            pod="p",
            container="main",
            device_ids={},
            claims=(HeldClaim(namespace="team", name="c", devices=(one, other)),),
        ),
        ContainerResources(
            namespace="team",
            pod="p",
            container="side",
            device_ids={"nvidia.com/gpu": ("GPU-a-0", "GPU-b-1"), "rdma/nic": ("x",)},
            claims=(),
        ),
    )


def test_a_large_node(socket: Path) -> None:
    """More than gRPC takes by itself: 250 pods with hundreds of ids each."""
    ids = [f"GPU-aa000000-1111-2222-3333-000000bb0000-{number}" for number in range(600)]
    devices = wire.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=ids)
    pods = [
        wire.PodResources(name=f"p{n}", namespace="t", containers=[container("c", devices)])
        for n in range(250)
    ]
    kubelet = Kubelet(*pods)
    assert kubelet.answer.ByteSize() > 4 * 2**20
    with serving(socket, kubelet):
        client = PodResources(socket)
        assert len(client.containers()) == 250
        client.close()


def test_kubelet_goes_and_comes(socket: Path) -> None:
    """Without a socket there is an error, and after kubelet has made it anew an answer."""
    client = PodResources(socket, timeout_s=1.0)
    with pytest.raises(PodResourcesError, match="UNAVAILABLE"):
        client.containers()

    def answers() -> bool:
        try:
            client.containers()
        except PodResourcesError:
            return False
        return True

    for _ in range(2):
        with serving(socket, Kubelet()):
            eventually(answers)
        socket.unlink(missing_ok=True)
        assert not answers()
    client.close()


def test_a_kubelet_that_hangs(socket: Path) -> None:
    """The monitor waits a while and goes on without it."""
    with serving(socket, Kubelet(hangs=True)):
        client = PodResources(socket, timeout_s=0.2)
        with pytest.raises(PodResourcesError, match="DEADLINE_EXCEEDED"):
            client.containers()
        client.close()
