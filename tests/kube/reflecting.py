"""A reflector at work, and what it tells."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kube.client import Client
from kube.config import ClientConfig
from kube.objects import JsonObject, ObjectKey
from kube.reflector import Change, Pace, Reflector
from tests.fakes.scripted_collection import Collection
from tests.fakes.scripted_server import ScriptedServer

FAST = Pace(silence_s=20, watch_s=20, first_wait_s=0.01, max_wait_s=0.02)
WAIT_S = 30.0


@dataclass
class Observed:
    """What a reflector tells, in order."""

    changes: "queue.Queue[tuple[str, str, Any, Any]]" = field(default_factory=queue.Queue)
    connected: "queue.Queue[None]" = field(default_factory=queue.Queue)

    def on_change(self, change: Change[Any]) -> None:
        """Note a change."""
        self.changes.put((change.kind.value, change.key.name, change.old, change.new))

    def on_connected(self) -> None:
        """Note an open watch."""
        self.connected.put(None)

    def next(self) -> tuple[str, str, Any, Any]:
        """Return the next change."""
        return self.changes.get(timeout=WAIT_S)

    def await_connected(self, times: int = 1) -> None:
        """Wait until a watch was opened *times* more."""
        for _ in range(times):
            self.connected.get(timeout=WAIT_S)


def decode(item: JsonObject) -> int:
    """Read the value, strictly."""
    return int(item["value"])


@contextmanager
def reflecting(
    collection: Collection, observed: Observed, pace: Pace = FAST, **options: Any
) -> Iterator[tuple[Reflector[int], ScriptedServer]]:
    """Run a reflector against *collection*."""
    with ScriptedServer(collection) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test", timeout_s=15)
        arguments: dict[str, Any] = {
            "params": {"labelSelector": "a=b"},
            "decode": decode,
            "on_change": observed.on_change,
            "on_connected": observed.on_connected,
            "pace": pace,
        }
        reflector: Reflector[int] = Reflector(client, "/things", **(arguments | options))
        reflector.start()
        try:
            yield reflector, server
        finally:
            reflector.stop()
            client.close()


def watches_of(server: ScriptedServer) -> list[dict[str, str]]:
    """Return the queries of the watches."""
    return [request.query for request in server.requests if "watch" in request.query]


def lists_of(server: ScriptedServer) -> list[dict[str, str]]:
    """Return the queries of the lists."""
    return [request.query for request in server.requests if "watch" not in request.query]


def key(name: str) -> ObjectKey:
    """Name an object."""
    return ObjectKey("ns", name)
