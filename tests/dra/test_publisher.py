"""The publisher against an API server that speaks real HTTP, drops fields and fails on demand."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from structlog.testing import capture_logs

from dra.devices import SharingPolicy
from dra.publisher import Publisher
from dra.sharing import Sharing, SharingProbe
from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, PciBusId
from kube.client import Client
from kube.config import ClientConfig
from kube.events import EventRecorder
from kube.paths import events, resource_slices
from sim.apiserver.server import ApiServer

NODE = "node-1"
GPU = Gpu(
    uuid=GpuUuid("GPU-d0000000-0000-4000-8000-000000000000"),
    pci_bus_id=PciBusId("0000:03:00.0"),
    minor=0,
    name="NVIDIA H100 80GB HBM3",
    brand="Nvidia",
    architecture="Hopper",
    memory_mib=81559,
    memory_reserved_mib=551,
    compute_capability="9.0",
    driver_version="580.65.06",
    cuda_driver_version="13.0",
    numa_node=1,
    pcie_root="pci0000:00",
    mig_enabled=False,
    compute_mode=ComputeMode.DEFAULT,
)


def inventory(count: int = 1, **changes: Any) -> Inventory:
    """Return an inventory of *count* GPUs with *changes* to each."""
    gpus = tuple(
        replace(
            GPU,
            uuid=GpuUuid(f"GPU-e0000000-0000-4000-8000-{index:012x}"),
            pci_bus_id=PciBusId(f"{index >> 8:04x}:{index & 255:02x}:00.0"),
            **changes,
        )
        for index in range(count)
    )
    return Inventory(driver_version="580.65.06", cuda_driver_version="13.0", gpus=gpus)


def eventually(condition: Callable[[], Any]) -> Any:
    """Wait until *condition* holds and return its value."""
    deadline = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.01)
    return found


class Cluster:
    """An API server in a thread of its own, seen by an administrator."""

    def __init__(self, version: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = ApiServer(version)
        self.wait(self.server.start())
        self.admin = self.client("admin")
        self.uid = self.json_of(self.admin.create("/api/v1/nodes", {"metadata": {"name": NODE}}))[
            "metadata"
        ]["uid"]

    def close(self) -> None:
        """End the server and its thread."""
        self.admin.close()
        self.wait(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait(self, coroutine: Any) -> Any:
        """Run *coroutine* in the server's loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def call(self, function: Callable[[], Any]) -> Any:
        """Call *function* in the server's loop and return its result."""

        async def run() -> Any:
            return function()

        return self.wait(run())

    def client(self, user: str) -> Client:
        """Return a client with a token of *user*."""
        token = self.call(lambda: self.server.token_for(user))
        config = ClientConfig(host=self.server.url, token=lambda: token)
        return Client(config, user_agent="test", timeout_s=10)

    def json_of(self, answer: bytes) -> Any:
        """Return an answer as JSON."""
        return json.loads(answer)

    def slices(self) -> list[dict[str, Any]]:
        """Return all slices by name."""
        items = self.json_of(self.admin.get(resource_slices()))["items"]
        return sorted(items, key=lambda item: item["metadata"]["name"])

    def modes(self) -> list[str]:
        """Return the mode of each published device."""
        return [
            device["attributes"]["mode"]["string"]
            for item in self.slices()
            for device in item["spec"].get("devices", ())
        ]

    def generations(self) -> list[int]:
        """Return the generation of each slice."""
        return [item["spec"]["pool"]["generation"] for item in self.slices()]

    def verbs(self, user: str = "agent") -> list[str]:
        """Return what *user* asked of slices over HTTP so far, watches and lists aside."""
        return [
            record.verb
            for record in self.call(lambda: self.server.requests)
            if record.user == user
            and record.status < 300
            and record.verb in {"create", "update", "patch", "delete"}
            and record.path.startswith(resource_slices())
        ]

    def requests(self, user: str = "agent") -> int:
        """Return how many requests *user* made so far."""
        return sum(record.user == user for record in self.call(lambda: self.server.requests))

    def node_events(self) -> list[tuple[str, str]]:
        """Return type and reason of the events about the node."""
        items = self.json_of(self.admin.get(events("default")))["items"]
        return sorted((item["type"], item["reason"]) for item in items)

    def delete_slices(self) -> None:
        """Delete all slices of the node, as kubelet does."""
        for item in self.slices():
            self.admin.delete(resource_slices(item["metadata"]["name"]))

    def switch_to(self, version: str) -> None:
        """Act as another version, as after a restart of the server."""
        self.call(lambda: self.server.set_version(version))
        self.call(self.server.drop_watches)


@contextmanager
def cluster(version: str = "1.37") -> Iterator[Cluster]:
    """Run an API server."""
    running = Cluster(version)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def publishing(
    where: Cluster, *, found: Inventory | None = None, resync_s: float = 300.0
) -> Iterator[Publisher]:
    """Run a publisher on *where*; the probe and the events have users of their own."""
    clients = [where.client(user) for user in ("agent", "probe", "events")]
    recorder = EventRecorder(clients[2], "gpuslice.io", NODE)
    publisher = Publisher(
        client=clients[0],
        node_name=NODE,
        node_uid=where.uid,
        probe=SharingProbe(clients[1], node_name=NODE, node_uid=where.uid),
        policy=SharingPolicy(),
        events=recorder,
        resync_s=resync_s,
        debounce_s=0.02,
    )
    if found is not None:
        publisher.set_inventory(found)
    publisher.start()
    try:
        yield publisher
    finally:
        publisher.stop()
        recorder.close()
        for client in clients:
            client.close()


def is_ready(publisher: Publisher) -> bool:
    """Tell whether *publisher* has its slices on the server."""
    return publisher.ready() is None


def has_memory(publisher: Publisher, text: str) -> bool:
    """Tell whether all published devices have memory of *text*."""
    devices = publisher.published_devices().values()
    return all(device["capacity"]["memory"]["value"] == text for device in devices)


def settled(publisher: Publisher) -> None:
    """Wait until *publisher* has its slices on the server."""
    eventually(lambda: is_ready(publisher))


def at_rest(where: Cluster) -> None:
    """Wait until nobody asks the server for anything any more."""
    last = -1
    while (now := where.requests("agent") + where.requests("probe")) != last:
        last = now
        time.sleep(0.3)


def test_gpus_are_published_in_one_slice() -> None:
    """Eight GPUs become one slice of the node's pool, owned by the node."""
    with cluster() as where, publishing(where) as publisher:
        assert publisher.ready() == "the GPUs have not been read yet"
        publisher.set_inventory(inventory(8))
        settled(publisher)
        (item,) = where.slices()
        assert item["metadata"]["ownerReferences"][0]["uid"] == where.uid
        assert item["metadata"]["name"].startswith("00000-gpuslice.io-node-1-")
        assert where.modes() == ["shared"] * 8
        devices = {device["name"]: device for device in item["spec"]["devices"]}
        assert publisher.published_devices() == devices
        assert publisher.sharing().kept
        assert where.verbs() == ["create"]


def test_no_gpus_are_published_as_an_empty_slice() -> None:
    """A node without GPUs has a slice that says so."""
    with cluster() as where, publishing(where, found=inventory(0)) as publisher:
        settled(publisher)
        (item,) = where.slices()
        assert "devices" not in item["spec"]
        assert publisher.published_devices() == {}


def test_nothing_is_asked_at_rest() -> None:
    """Many resyncs and repeated inventories lead to no request at all."""
    with cluster() as where, publishing(where, found=inventory(2), resync_s=0.02) as publisher:
        settled(publisher)
        at_rest(where)
        before = where.requests(), where.requests("probe")
        for _ in range(5):
            publisher.set_inventory(inventory(2))
            time.sleep(0.05)
        assert (where.requests(), where.requests("probe")) == before
        assert where.verbs() == ["create"]


def test_a_burst_of_changes_is_one_write() -> None:
    """Changes close together become one update, of the same generation."""
    with cluster() as where, publishing(where, found=inventory(2)) as publisher:
        settled(publisher)
        for memory_mib in range(1000, 1020):
            publisher.set_inventory(inventory(2, memory_mib=memory_mib))
        eventually(lambda: has_memory(publisher, "1019Mi"))
        assert where.generations() == [1]
        assert where.verbs().count("create") == 1
        assert 1 <= where.verbs().count("update") <= 2


def test_a_deleted_slice_is_back_at_once() -> None:
    """Whoever deletes the slice, the node publishes a newer one."""
    with cluster() as where, publishing(where, found=inventory()) as publisher:
        settled(publisher)
        where.delete_slices()
        eventually(lambda: where.generations() == [2])
        assert where.modes() == ["shared"]


def test_a_deleted_collection_comes_back_whole() -> None:
    """A pool of several slices is one generation again, with the right count in each."""
    with cluster() as where, publishing(where, found=inventory(300)) as publisher:
        settled(publisher)
        assert where.generations() == [1, 1, 1]
        where.delete_slices()

        def is_whole() -> bool:
            slices = where.slices()
            counts = [item["spec"]["pool"]["resourceSliceCount"] for item in slices]
            return counts == [3, 3, 3] and len(set(where.generations())) == 1

        eventually(is_whole)
        assert where.generations()[0] > 1
        assert len(where.modes()) == 300


def test_more_slices_are_a_new_generation() -> None:
    """A node whose devices need a second slice says so on both."""
    with cluster() as where, publishing(where, found=inventory(2)) as publisher:
        settled(publisher)
        publisher.set_inventory(inventory(129))
        eventually(lambda: where.generations() == [2, 2])
        publisher.set_inventory(inventory(1))
        eventually(lambda: where.generations() == [3])


def test_edits_by_others_are_undone() -> None:
    """Devices that somebody removed from the slice are put back."""
    with cluster() as where, publishing(where, found=inventory(2)) as publisher:
        settled(publisher)
        (item,) = where.slices()
        item["spec"]["devices"] = item["spec"]["devices"][:1]
        where.admin.replace(resource_slices(item["metadata"]["name"]), item)
        eventually(lambda: where.modes() == ["shared", "shared"])
        assert where.generations() == [1]


def test_leftovers_of_another_version_are_removed() -> None:
    """Slices of this driver on this node that are not wanted go; those of others stay."""
    with cluster() as where:
        for name, driver in (("old", "gpuslice.io"), ("foreign", "gpu.example.com")):
            spec = {
                "driver": driver,
                "nodeName": NODE,
                "pool": {"name": f"{NODE}/old", "generation": 7, "resourceSliceCount": 1},
            }
            where.admin.create(
                resource_slices(),
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceSlice",
                    "metadata": {"name": name},
                    "spec": spec,
                },
            )
        with publishing(where, found=inventory()) as publisher:
            settled(publisher)
            names = [item["metadata"]["name"] for item in where.slices()]
            assert len(names) == 2
            assert "foreign" in names
            assert "old" not in names


def test_conflicts_and_failures_are_tried_again() -> None:
    """A conflict, a busy server and a refusal delay a change and do not lose it."""
    with cluster() as where, publishing(where, found=inventory()) as publisher:
        settled(publisher)
        for status in (409, 429, 422, 503):
            where.call(partial(where.server.fail_next, 1, status, verb="update"))
            publisher.set_inventory(inventory(memory_mib=status))
            eventually(partial(has_memory, publisher, f"{status}Mi"))
        settled(publisher)
        assert where.generations() == [1]
        assert where.verbs() == ["create"] + ["update"] * 4


def test_conflicts_are_resolved_at_once() -> None:
    """Slices that changed meanwhile are read again: that is no failure to wait after."""
    with cluster() as where, publishing(where, found=inventory()) as publisher:
        settled(publisher)
        where.call(lambda: where.server.fail_next(4, 409, verb="update"))
        with capture_logs() as logs:
            publisher.set_inventory(inventory(memory_mib=4000))
            eventually(lambda: has_memory(publisher, "4000Mi"))
        assert [entry["event"] for entry in logs] == ["slice written"]


def test_a_failure_says_why_it_is_not_ready() -> None:
    """While the server refuses the slices, readiness carries its words."""
    with cluster() as where, publishing(where) as publisher:
        where.call(lambda: where.server.fail_next(10_000, 403, verb="list"))
        publisher.set_inventory(inventory())
        eventually(lambda: "injected fault" in (publisher.ready() or ""))
        where.call(where.server.clear_faults)
        settled(publisher)


def test_a_server_that_is_away_is_waited_for() -> None:
    """A publisher that starts without a server publishes when there is one."""
    with cluster() as where:
        where.wait(where.server.pause())
        with publishing(where, found=inventory()) as publisher:
            eventually(lambda: "sharing" in (publisher.ready() or ""))
            where.wait(where.server.resume())
            settled(publisher)
            assert where.modes() == ["shared"]


def test_a_server_that_drops_sharing_gets_whole_gpus() -> None:
    """On a server with the gate off GPUs are exclusive, and one event names the gate."""
    with cluster("1.34") as where, publishing(where, found=inventory(2)) as publisher:
        settled(publisher)
        assert where.modes() == ["exclusive", "exclusive"]
        assert where.verbs() == ["create"]
        assert publisher.sharing().state is Sharing.DROPPED
        eventually(where.node_events)
        at_rest(where)
        probes = len(where.verbs("probe"))
        where.call(where.server.drop_watches)
        eventually(lambda: len(where.verbs("probe")) > probes)
        at_rest(where)
        (event,) = where.json_of(where.admin.get(events("default")))["items"]
        assert (event["type"], event["reason"]) == ("Warning", "SharingNotSupported")
        assert event["involvedObject"]["name"] == NODE
        assert "DRAConsumableCapacity" in event["message"]
        assert "whole GPUs" in event["message"]
        assert event.get("count", 1) == 1


def test_an_upgraded_server_gets_shares_without_a_restart() -> None:
    """The verdict follows the server up and down, and each turn is told once."""
    with cluster("1.34") as where, publishing(where, found=inventory()) as publisher:
        settled(publisher)
        assert where.modes() == ["exclusive"]
        where.switch_to("1.37")
        eventually(lambda: where.modes() == ["shared"])
        eventually(lambda: ("Normal", "SharingSupported") in where.node_events())
        where.switch_to("1.35")
        eventually(lambda: where.modes() == ["exclusive"])
        assert where.generations() == [1]
        assert where.verbs() == ["create", "update", "update"]


def test_a_written_slice_overrules_the_probe() -> None:
    """A server that changes its mind unseen is found out by what it makes of a real slice."""
    with cluster() as where, publishing(where, found=inventory()) as publisher:
        settled(publisher)
        at_rest(where)
        where.call(lambda: where.server.set_version("1.34"))
        where.delete_slices()
        eventually(lambda: where.modes() == ["exclusive"])
        assert not publisher.sharing().kept
        eventually(lambda: where.node_events() == [("Warning", "SharingNotSupported")])


def test_a_passing_error_of_the_probe_does_not_close_gpus() -> None:
    """The very first question is repeated before anything is published."""
    with cluster() as where:
        where.call(lambda: where.server.fail_next(2, 503, verb="create"))
        with publishing(where, found=inventory()) as publisher:
            settled(publisher)
            assert where.modes() == ["shared"]
            assert where.verbs() == ["create"]


def test_an_unanswered_probe_closes_gpus_until_there_is_an_answer() -> None:
    """Without an answer GPUs are offered whole, and in shares once it comes."""
    with cluster() as where:
        where.call(lambda: where.server.fail_next(3, 503, verb="create"))
        with publishing(where, found=inventory()) as publisher:
            eventually(lambda: where.verbs() == ["create", "update"])
            eventually(lambda: where.modes() == ["shared"])
            assert publisher.sharing().kept


def test_two_publishers_agree() -> None:
    """During a rolling update two processes end with one set of slices and then rest."""
    with (
        cluster() as where,
        publishing(where, found=inventory(2)) as first,
        publishing(where, found=inventory(2)) as second,
    ):
        settled(first)
        settled(second)
        where.delete_slices()

        def is_whole() -> bool:
            return where.modes() == ["shared", "shared"] and len(where.slices()) == 1

        eventually(is_whole)
        at_rest(where)
        assert is_whole()
        assert first.published_devices() == second.published_devices()


def test_a_publisher_that_stops_leaves_its_slices() -> None:
    """At exit nothing is deleted, and nothing is repaired afterwards."""
    with cluster() as where:
        with publishing(where, found=inventory()) as publisher:
            settled(publisher)
        assert where.modes() == ["shared"]
        before = where.verbs()
        where.delete_slices()
        time.sleep(0.2)
        assert where.slices() == []
        assert where.verbs() == before


def test_a_restarted_publisher_writes_nothing() -> None:
    """A process that finds its slices as they should be leaves them alone."""
    with cluster() as where:
        for _ in range(2):
            with publishing(where, found=inventory(3)) as publisher:
                settled(publisher)
        assert where.verbs() == ["create"]


def test_hostile_changes_are_answered_ever_more_rarely() -> None:
    """Someone who keeps deleting the slices cannot make the node flood the server."""
    with cluster() as where, publishing(where, found=inventory()) as publisher:
        settled(publisher)

        def gives_way() -> bool:
            where.delete_slices()
            return "again and again" in (publisher.ready() or "")

        eventually(gives_way)


def test_withheld_devices_are_told() -> None:
    """A GPU that is not offered is named with the reason."""
    with cluster() as where:
        closed = inventory(compute_mode=ComputeMode.PROHIBITED)
        with publishing(where, found=closed) as publisher:
            settled(publisher)
            (withheld,) = publisher.withheld()
            assert withheld.refusal.code == "ComputeModeProhibited"
            assert where.modes() == []
