"""The health stream, over a real socket."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from dra.devicehealth import DeviceHealth
from dra.health import HEARTBEAT_S, MAX_STREAMS, TIMEOUT_S
from dra.server import CALL_THREADS
from protos import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
)
from tests.dra.builders import NODE, UID, a_claim, a_gpu, a_result
from tests.dra.nodes import Node
from tests.dra.sockets import channel_to, serving
from tests.fakes.claim_server import ClaimServer

VERSIONS = [
    (dra_health_v1_pb2, dra_health_v1_pb2_grpc),
    (dra_health_v1alpha1_pb2, dra_health_v1alpha1_pb2_grpc),
]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Run a plugin for which an API server has one claim."""
    with ClaimServer(a_claim(a_result(a_gpu(0)))) as server:
        node = Node(tmp_path, server)
        yield node
        node.close()


def open_stream(channel: grpc.Channel, messages: Any, services: Any) -> Any:
    """Begin to watch, as kubelet does after registration."""
    stub = services.DRAResourceHealthStub(channel)
    return stub.NodeWatchResources(messages.NodeWatchResourcesRequest(), timeout=60)


def well(name: str) -> DeviceHealth:
    """Return a device with which nothing is wrong."""
    return DeviceHealth(name=name, healthy=True)


def ill(name: str, message: str = "the GPU has fallen off the bus") -> DeviceHealth:
    """Return a device that is not well."""
    return DeviceHealth(name=name, healthy=False, code="Xid79", message=message)


@pytest.mark.parametrize(("messages", "services"), VERSIONS, ids=["v1", "v1alpha1"])
def test_each_heartbeat_is_the_full_list(
    tmp_path: Path, node: Node, messages: Any, services: Any
) -> None:
    """Kubelet forgets a device that is not said again, so all are, each time."""
    path = tmp_path / "dra.sock"
    devices = [well("gpu-a"), well("gpu-b")]
    with (
        serving(path, node.preparer, devices=lambda: list(devices), heartbeat_s=0.02),
        channel_to(path) as channel,
    ):
        stream = open_stream(channel, messages, services)
        for message in itertools.islice(stream, 3):
            assert [each.device.device_name for each in message.devices] == ["gpu-a", "gpu-b"]
            for each in message.devices:
                assert each.device.pool_name == NODE
                assert each.health == messages.HealthStatus.HEALTHY
                assert each.message == ""
                assert each.health_check_timeout_seconds == TIMEOUT_S
                assert each.last_updated_time > 1_700_000_000
        del devices[0]
        names = {len(message.devices) for message in itertools.islice(stream, 4)}
        assert 1 in names
        stream.cancel()


@pytest.mark.parametrize(("messages", "services"), VERSIONS, ids=["v1", "v1alpha1"])
def test_a_change_is_said_at_once(tmp_path: Path, node: Node, messages: Any, services: Any) -> None:
    """Every open stream says which device is ill and why, and when it is well again."""
    path = tmp_path / "dra.sock"
    devices = [well("gpu-a"), well("gpu-b")]
    with (
        serving(path, node.preparer, devices=lambda: devices, heartbeat_s=1000.0) as streams,
        channel_to(path) as channel,
    ):
        opened = [open_stream(channel, messages, services) for _ in range(2)]
        for stream in opened:
            next(stream)
        for now, health in ((ill("gpu-b"), "UNHEALTHY"), (well("gpu-b"), "HEALTHY")):
            devices[1] = now
            streams.changed()
            for stream in opened:
                first, second = next(stream).devices
                assert first.health == messages.HealthStatus.HEALTHY
                assert second.health == messages.HealthStatus.Value(health)
                said = "" if now.healthy else "Xid79: the GPU has fallen off the bus"
                assert (first.message, second.message) == ("", said)
        for stream in opened:
            stream.cancel()


def test_a_change_while_the_list_is_read_is_said(tmp_path: Path, node: Node) -> None:
    """It is not left to the next heartbeat, which here never comes."""
    path = tmp_path / "dra.sock"
    lists = iter([[well("gpu-a")], [ill("gpu-a")]])

    def devices() -> list[DeviceHealth]:
        now = next(lists)
        if now[0].healthy:
            streams.changed()
        return now

    with (
        serving(path, node.preparer, devices=devices, heartbeat_s=1000.0) as streams,
        channel_to(path) as channel,
    ):
        stream = open_stream(channel, *VERSIONS[0])
        said = [message.devices[0].message for message in itertools.islice(stream, 2)]
        assert said == ["", "Xid79: the GPU has fallen off the bus"]
        stream.cancel()


def test_a_message_is_short_ascii(tmp_path: Path, node: Node) -> None:
    """Kubelet would cut it at a byte of its own choice."""
    path = tmp_path / "dra.sock"
    devices = [ill("gpu-a", message="\u00fc" * 3000)]
    with serving(path, node.preparer, devices=lambda: devices), channel_to(path) as channel:
        stream = open_stream(channel, *VERSIONS[0])
        (device,) = next(stream).devices
        assert device.message == "Xid79: " + "?" * 993
        stream.cancel()


def test_the_timeout_leaves_room_for_lost_heartbeats() -> None:
    """Two may be late before kubelet doubts the devices."""
    assert HEARTBEAT_S * 3 <= TIMEOUT_S


def test_many_streams_never_take_the_threads_of_calls(tmp_path: Path, node: Node) -> None:
    """Far more than the server has threads are opened, and prepare is answered at once."""
    path = tmp_path / "dra.sock"
    count = CALL_THREADS + 3 * MAX_STREAMS + 10
    with serving(path, node.preparer) as streams, channel_to(path) as channel:
        opened = [open_stream(channel, *VERSIONS[number % 2]) for number in range(count)]
        for stream in opened[-3:]:
            assert next(stream) is not None
        plugin = dra_v1_pb2_grpc.DRAPluginStub(channel)
        claim = dra_v1_pb2.Claim(namespace="team-a", name="claim", uid=UID)
        request = dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim])
        for _ in range(CALL_THREADS):
            answer = plugin.NodePrepareResources(request, timeout=10)
            assert answer.claims[UID].error == ""
        assert streams.count() <= MAX_STREAMS
        for stream in opened:
            stream.cancel()


def test_the_oldest_stream_ends_for_a_new_one(tmp_path: Path, node: Node) -> None:
    """It ends well, so kubelet opens another only if it still wants one."""
    path = tmp_path / "dra.sock"
    with serving(path, node.preparer), channel_to(path) as channel:
        opened = []
        for _ in range(MAX_STREAMS + 1):
            stream = open_stream(channel, *VERSIONS[0])
            next(stream)
            opened.append(stream)
        assert list(opened[0]) == []
        assert opened[0].code() is grpc.StatusCode.OK
        for stream in opened[1:]:
            stream.cancel()


def test_a_stream_ends_with_its_client(tmp_path: Path, node: Node) -> None:
    """Its thread is free again long before the next heartbeat."""
    path = tmp_path / "dra.sock"
    with serving(path, node.preparer, heartbeat_s=1000.0) as streams:
        with channel_to(path) as channel:
            stream = open_stream(channel, *VERSIONS[0])
            next(stream)
            assert streams.count() == 1
            stream.cancel()
        with streams._changed:
            assert streams._changed.wait_for(lambda: streams.count() == 0, timeout=20)


def test_all_streams_end_at_a_stop(tmp_path: Path, node: Node) -> None:
    """A stopping plugin does not wait for kubelet."""
    path = tmp_path / "dra.sock"
    ended = threading.Event()
    with channel_to(path) as channel:
        with serving(path, node.preparer, heartbeat_s=1000.0):
            stream = open_stream(channel, *VERSIONS[0])
            next(stream)
            stream.add_callback(ended.set)
        assert ended.wait(20)
