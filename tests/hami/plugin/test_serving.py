"""The plugin's socket, its registration and its list, with a kubelet over real sockets."""

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from hami.plugin.model import Offer
from hami.plugin.ownership import OwnerCheck
from hami.plugin.service import STREAMS_MAX
from hami.plugin.serving import socket_path
from kube.events import EventRecorder
from protos import deviceplugin_v1beta1_pb2 as api
from tests.hami.plugin.kubelet import DEADLINE_S, Kubelet
from tests.hami.plugin.placed import NODE, RESOURCE, Cluster, Parts, card, given, parts_of, uuid
from tests.hami.plugin.running import running


def until(condition: Callable[[], object]) -> None:
    """Wait for *condition*."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def parts(cluster: Cluster) -> Parts:
    """Return what a plugin is made of."""
    return parts_of(cluster.server.client())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return kubelet's directory of sockets, which is there."""
    found = tmp_path / "device-plugins"
    found.mkdir()
    return found


def test_kubelet_learns_of_all_parts_of_all_cards(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """By ids that say whose part they are; it is told to ask which to take."""
    with Kubelet(directory) as kubelet, running(tmp_path, parts) as plugin:
        found = kubelet.wait_lists(1)
        (request,) = kubelet.requests
        assert (request.resource_name, request.endpoint) == (RESOURCE, "gpuslice-gpu.sock")
        assert kubelet.options is not None
        assert kubelet.options.get_preferred_allocation_available
        assert not kubelet.options.pre_start_required
        expected = [f"{uuid(number)}-{part}" for number in range(4) for part in range(4)]
        assert [each.ID for each in found.devices] == expected
        assert {each.health for each in found.devices} == {"Healthy"}
        assert not any(each.HasField("topology") for each in found.devices)
        until(lambda: plugin.serving.problem() is None)


def test_the_list_is_sent_whole_whenever_it_changes(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """A card that falls ill, one that recovers, and one that is filtered; nothing without news."""
    with Kubelet(directory) as kubelet, running(tmp_path, parts) as plugin:
        kubelet.wait_lists(1)
        ill, well = Offer(cards=(card(0, healthy=False), card(1))), Offer(cards=(card(0), card(1)))
        offers = [(ill, 8, 4), (well, 8, 8), (well, 8, 8), (Offer(cards=(card(1),)), 4, 4)]
        lists = 1
        for offer, count, healthy in offers:
            lists += offer != parts.offering.offer
            parts.offering.offer = offer
            plugin.servicer.changed()
            found = kubelet.wait_lists(lists).devices
            assert (len(found), len(kubelet.healthy())) == (count, healthy)
        parts.offering.offer = Offer(cards=())
        plugin.servicer.changed()
        assert len(kubelet.wait_lists(lists + 1).devices) == 0
        assert len(kubelet.lists) == lists + 1


def test_numa_nodes_are_told_by_setting(tmp_path: Path, directory: Path, parts: Parts) -> None:
    """Then kubelet aligns containers to them."""
    with Kubelet(directory) as kubelet, running(tmp_path, parts, numa=True):
        found = kubelet.wait_lists(1).devices
    assert [[each.ID for each in one.topology.nodes] for one in found[::4]] == [[0], [1], [0], [1]]


def test_a_list_that_kubelet_would_not_take_is_told(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """Its gRPC takes 4 MiB; the remedy is to split less."""
    cards = tuple(card(number, count=10_000) for number in range(8))
    parts.offering.offer = Offer(cards=cards)
    with Kubelet(directory), running(tmp_path, parts) as plugin:
        until(lambda: "split GPUs into fewer parts" in (plugin.servicer.problem() or ""))


def test_a_stream_that_kubelet_left_makes_room(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """However often its connection breaks."""
    with Kubelet(directory) as kubelet, running(tmp_path, parts) as plugin:
        kubelet.wait_lists(1)
        for number in range(2 * STREAMS_MAX):
            kubelet.drop()
            plugin.serving.look()
            kubelet.wait_lists(number + 2)


def test_static_partitions_are_offered_as_they_are(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """They are not divided any further."""
    parts.offering.offer = Offer(cards=(card(0, uuid="MIG-0", count=1),))
    with Kubelet(directory) as kubelet, running(tmp_path, parts):
        assert [each.ID for each in kubelet.wait_lists(1).devices] == ["MIG-0"]


def test_a_pod_is_served_over_the_sockets(
    tmp_path: Path, directory: Path, cluster: Cluster, parts: Parts
) -> None:
    """Kubelet takes one id of each decided card, and gets its answer."""
    with Kubelet(directory) as kubelet, running(tmp_path, parts):
        kubelet.wait_lists(1)
        cluster.pod("a", f"{given(2, 2000)}{given(1, 1000)};", counts=(2,))
        chosen = kubelet.choose(2)
        assert chosen == [f"{uuid(1)}-0", f"{uuid(2)}-0"]
        (answer,) = kubelet.allocate(chosen)
        assert answer.envs["CUDA_DEVICE_MEMORY_LIMIT_1"] == "2000m"


def test_an_error_is_a_sentence(
    tmp_path: Path, directory: Path, cluster: Cluster, parts: Parts
) -> None:
    """Kubelet writes it into the status of the pod."""
    with Kubelet(directory) as kubelet, running(tmp_path, parts):
        kubelet.wait_lists(1)
        with pytest.raises(grpc.RpcError) as caught:
            kubelet.allocate([f"{uuid(0)}-0"])
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert f"no binding pod found on node {NODE}" in error.details()


def test_every_container_of_a_preference_has_its_position(
    tmp_path: Path, directory: Path, cluster: Cluster, parts: Parts
) -> None:
    """One of whose cards kubelet has no id gets an empty answer in its place."""
    with Kubelet(directory) as kubelet, running(tmp_path, parts):
        kubelet.wait_lists(1)
        cluster.pod("a", f"{given(0)};{given(1)};", counts=(1, 1))
        asked = [
            api.ContainerPreferredAllocationRequest(
                available_deviceIDs=[f"{uuid(number)}-3"], allocation_size=1
            )
            for number in (2, 1)
        ]
        request = api.PreferredAllocationRequest(container_requests=asked)
        found = kubelet.plugin.GetPreferredAllocation(request).container_responses
        assert [list(each.deviceIDs) for each in found] == [[], [f"{uuid(1)}-3"]]
        nobody = api.PreferredAllocationRequest(container_requests=asked[:1] * 3)
        found = kubelet.plugin.GetPreferredAllocation(nobody).container_responses
        assert [list(each.deviceIDs) for each in found] == [[], [], []]


def test_a_restarted_kubelet_gets_the_plugin_again(
    tmp_path: Path, directory: Path, cluster: Cluster, parts: Parts
) -> None:
    """It has removed the plugin's socket and knows nobody; what it asked before is remembered."""
    with running(tmp_path, parts):
        with Kubelet(directory) as kubelet:
            kubelet.wait_lists(1)
            cluster.pod("a", f"{given(0)};")
            chosen = kubelet.choose(1)
            first = kubelet.allocate(chosen)
        for _ in range(3):
            with Kubelet(directory) as kubelet:
                assert len(kubelet.wait_lists(1).devices) == 16
                assert kubelet.allocate(chosen) == first


def test_kubelet_may_come_after_the_plugin(tmp_path: Path, parts: Parts) -> None:
    """Even its directory."""
    with running(tmp_path, parts) as plugin:
        until(lambda: "kubelet.sock" in (plugin.serving.problem() or ""))
        with Kubelet(tmp_path / "device-plugins") as kubelet:
            kubelet.wait_lists(1)


def test_a_socket_that_is_removed_is_made_again(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """And kubelet is told, though it is the same one."""
    with Kubelet(directory) as kubelet, running(tmp_path, parts) as plugin:
        kubelet.wait_lists(1)
        plugin.socket.unlink()
        kubelet.wait_registered(2)
        kubelet.wait_lists(2)
        assert plugin.socket.is_socket()


def test_a_directory_that_is_made_anew_is_watched(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """As after its file system was mounted anew."""
    with running(tmp_path, parts):
        with Kubelet(directory) as kubelet:
            kubelet.wait_lists(1)
        shutil.rmtree(directory)
        with Kubelet(directory) as kubelet:
            kubelet.wait_lists(1)


def test_a_socket_of_a_killed_plugin_is_no_hindrance(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """Nobody listens at it."""
    server = grpc.server(ThreadPoolExecutor(1))
    path = socket_path(tmp_path, RESOURCE)
    with Kubelet(directory) as kubelet:
        server.add_insecure_port(f"unix:{path}")
        server.start()
        path.rename(path.with_suffix(".kept"))
        server.stop(0).wait()
        path.with_suffix(".kept").rename(path)
        with running(tmp_path, parts):
            kubelet.wait_lists(1)


def test_nothing_is_offered_before_the_cards_are_known(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """An empty list would take the node's devices away."""
    known, parts.offering.offer = parts.offering.offer, None
    with Kubelet(directory) as kubelet, running(tmp_path, parts) as plugin:
        until(lambda: "not known" in (plugin.serving.problem() or ""))
        assert kubelet.requests == []
        parts.offering.offer = known
        plugin.serving.look()
        assert len(kubelet.wait_lists(1).devices) == 16


def rival_at(path: Path) -> grpc.Server:
    """Serve at *path*, as another plugin does."""
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    return server


def test_a_resource_of_another_plugin_is_left_to_it(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """Before it serves and while it does; it comes back when the other has gone."""
    with Kubelet(directory) as kubelet:
        rival = rival_at(directory / "nvidia-gpu.sock")
        with running(tmp_path, parts) as plugin:
            until(lambda: "served by another plugin" in (plugin.serving.problem() or ""))
            assert kubelet.requests == []
            assert not plugin.socket.exists()
            rival.stop(0).wait()
            kubelet.wait_lists(1)
            until(lambda: plugin.serving.problem() is None)
            rival = rival_at(directory / "nvidia-gpu.sock")
            until(lambda: "served by another plugin" in (plugin.serving.problem() or ""))
            assert not plugin.socket.exists()
            rival.stop(0).wait()
            kubelet.wait_lists(2)


def test_a_second_instance_waits_for_the_first(
    tmp_path: Path, directory: Path, parts: Parts
) -> None:
    """During an update; neither takes the socket from the other."""
    with Kubelet(directory) as kubelet:
        with running(tmp_path, parts):
            kubelet.wait_lists(1)
            with running(tmp_path, parts) as second:
                until(lambda: "another instance" in (second.serving.problem() or ""))
                assert len(kubelet.requests) == 1
        with running(tmp_path, parts):
            kubelet.wait_lists(2)


@pytest.mark.parametrize(
    ("allocatable", "served_by"),
    [
        (None, "us"),
        ("0", "us"),
        ("16", "us"),
        ("4", "another"),
        ("1k", "another"),
        ("junk", "us"),
    ],
)
def test_devices_that_are_not_ours_are_seen_on_the_node(
    tmp_path: Path, parts: Parts, allocatable: str | None, served_by: str
) -> None:
    """Another number than ours is another plugin's, or that of one that ended just now."""
    node = {"metadata": {"name": NODE}, "status": {"allocatable": {RESOURCE: allocatable}}}
    owners = OwnerCheck(
        resource=RESOURCE,
        own=socket_path(tmp_path, RESOURCE),
        offers=parts.offering,
        node=lambda: node,
    )
    assert (owners.before_serving() is None) == (served_by == "us")
    assert owners.while_serving() is None


def test_the_node_says_that_another_plugin_serves_it(cluster: Cluster, tmp_path: Path) -> None:
    """Once, however often it is looked at, and once more when it comes back."""
    client = cluster.server.client()
    events = EventRecorder(client, "gpuslice", NODE)
    node: dict[str, Any] = {"metadata": {"name": NODE, "uid": "u"}, "status": {}}
    owners = OwnerCheck(
        resource=RESOURCE,
        own=socket_path(tmp_path, RESOURCE),
        offers=parts_of(client).offering,
        node=lambda: node,
        events=events,
    )
    with capture_logs() as logs:
        for count in ("8", "8", "0", "8"):
            node["status"]["allocatable"] = {RESOURCE: count}
            owners.before_serving()
    assert len(logs) == 2
    events.close(10)
    (found,) = cluster.events()
    assert found["reason"] == "ResourceServedByAnother"
    assert found["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": NODE,
        "uid": "u",
    }
    assert found["message"].startswith(f"{RESOURCE} is served by another plugin")


def test_a_call_in_flight_ends_before_the_plugin_does(
    tmp_path: Path, directory: Path, cluster: Cluster, parts: Parts
) -> None:
    """Kubelet gets its answer."""
    answering = threading.Event()
    with Kubelet(directory) as kubelet, running(tmp_path, parts) as plugin:
        kubelet.wait_lists(1)
        cluster.pod("a", f"{given(0)};")
        held = threading.Event()

        def hold() -> None:
            answering.set()
            held.wait(DEADLINE_S)

        parts.answers.before = hold
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(kubelet.allocate, [f"{uuid(0)}-0"])
            assert answering.wait(DEADLINE_S)
            plugin.serving.stop()
            held.set()
            assert len(call.result()) == 1
    assert cluster.phase("a") == "success"
