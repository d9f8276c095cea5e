"""A publisher at work on an API server, for the tests of what it writes and when."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dra.filllevel import FillLevels
from dra.offer import OfferRules
from dra.publisher import Publisher
from dra.sharing import SharingProbe
from dra.situation import SituationSource
from gpu.model import Inventory
from kube.events import EventRecorder
from kube.paths import events, resource_slices
from tests.dra.gpus import inventory_of, many_gpus
from tests.fakes.api_server import ServerThread
from tests.patience import eventually

NODE = "node-1"


class Cluster(ServerThread):
    """An API server with one node, seen by an administrator."""

    def start(self) -> None:
        """Listen, and create the node."""
        super().start()
        self.admin = self.client("admin")
        node = json.loads(self.admin.create("/api/v1/nodes", {"metadata": {"name": NODE}}))
        self.uid = node["metadata"]["uid"]

    def stop(self) -> None:
        """End the server and its thread."""
        self.admin.close()
        super().stop()

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return all objects at *path*."""
        items: list[dict[str, Any]] = json.loads(self.admin.get(path))["items"]
        return items

    def slices(self) -> list[dict[str, Any]]:
        """Return all slices by name."""
        return sorted(self.items(resource_slices()), key=lambda item: item["metadata"]["name"])

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
        return sorted((item["type"], item["reason"]) for item in self.items(events("default")))

    def delete_slices(self) -> None:
        """Delete all slices of the node, as kubelet does."""
        for item in self.slices():
            self.admin.delete(resource_slices(item["metadata"]["name"]))

    def switch_to(self, version: str) -> None:
        """Act as another version, as after a restart of the server."""
        self.call(self.server.set_version, version)
        self.call(self.server.drop_watches)


@contextmanager
def cluster(version: str = "1.37") -> Iterator[Cluster]:
    """Run an API server."""
    running = Cluster(version)
    running.start()
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def publishing(
    where: Cluster,
    *,
    found: Inventory | None = None,
    rules: OfferRules | None = None,
    situation: SituationSource | None = None,
    fill: FillLevels | None = None,
    health_changed: Callable[[], None] = lambda: None,
    resync_s: float = 300.0,
    debounce_s: float = 0.02,
) -> Iterator[Publisher]:
    """Run a publisher on *where*; the probe and the events have users of their own."""
    clients = [where.client(user) for user in ("agent", "probe", "events")]
    recorder = EventRecorder(clients[2], "gpuslice.io", NODE)
    publisher = Publisher(
        client=clients[0],
        node_name=NODE,
        node_uid=where.uid,
        probe=SharingProbe(clients[1], node_name=NODE, node_uid=where.uid),
        rules=rules or OfferRules(),
        situation=situation,
        fill=fill,
        health_changed=health_changed,
        events=recorder,
        resync_s=resync_s,
        debounce_s=debounce_s,
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


def an_inventory(count: int = 1, **changes: Any) -> Inventory:
    """Return an inventory of *count* GPUs with *changes* to each."""
    return inventory_of(*many_gpus(count, **changes))


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
    """Wait until nobody has asked the server for anything for a while."""
    looks: list[int] = []
    while len(looks) < 3 or len(set(looks[-3:])) > 1:
        looks.append(where.requests("agent") + where.requests("probe"))
        time.sleep(0.2)
