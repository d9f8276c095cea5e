"""The reflector against servers that behave well, badly and not at all."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kube.client import Client
from kube.config import ClientConfig
from kube.objects import JsonObject, ObjectKey
from kube.reflector import Change, Pace, Reflector
from tests.fakes.scripted_collection import Collection, event, listing, pages, stream, thing
from tests.fakes.scripted_server import Exchange, ScriptedServer, status

FAST = Pace(silence_s=20, watch_s=20, first_wait_s=0.01, max_wait_s=0.02)
WAIT_S = 10.0


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
        client = Client(ClientConfig(host=server.url), user_agent="test", timeout_s=5)
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


def test_it_lists_pages_and_then_watches_from_there() -> None:
    """All pages are taken, then the events that follow."""
    collection = Collection(
        lists=[
            pages(listing(10, thing("a", 3, 1), following="more")),
            pages(listing(10, thing("b", 4, 2))),
        ],
        watches=[stream(event("MODIFIED", thing("a", 11, 5)), then="hold")],
    )
    observed = Observed()
    with reflecting(collection, observed) as (reflector, server):
        assert reflector.wait_synced(WAIT_S)
        assert observed.next() == ("added", "a", None, 1)
        assert observed.next() == ("added", "b", None, 2)
        assert observed.next() == ("modified", "a", 1, 5)
        assert reflector.items() == {key("a"): 5, key("b"): 2}
        observed.await_connected()
    first, second = lists_of(server)
    assert first == {"labelSelector": "a=b", "limit": "200"}
    assert second == {"labelSelector": "a=b", "limit": "200", "continue": "more"}
    (watch,) = watches_of(server)
    assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("10", "true")
    assert watch["labelSelector"] == "a=b"
    assert 20 <= int(watch["timeoutSeconds"]) <= 30


def test_an_ended_watch_is_resumed_from_the_last_version() -> None:
    """Events and bookmarks both move the version; nothing is listed again."""
    collection = Collection(
        lists=[pages(listing(10))],
        watches=[
            stream(event("ADDED", thing("a", 12, 1))),
            stream(event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})),
            stream(event("DELETED", thing("a", 41, 1)), then="cut"),
        ],
    )
    observed = Observed()
    with reflecting(collection, observed) as (reflector, server):
        assert observed.next() == ("added", "a", None, 1)
        assert observed.next() == ("deleted", "a", 1, None)
        observed.await_connected(4)
        assert reflector.items() == {}
    assert [watch["resourceVersion"] for watch in watches_of(server)] == ["10", "12", "40", "41"]
    assert len(lists_of(server)) == 1


@pytest.mark.parametrize(
    "lost",
    [
        lambda exchange: exchange.status(410, "Expired"),
        stream(event("ERROR", status(410, "Expired", "too old resource version"))),
    ],
)
def test_lost_history_is_listed_again_with_deletions(lost: Callable[[Exchange], None]) -> None:
    """410 as an answer and as an event: what vanished is told."""
    collection = Collection(
        lists=[
            pages(listing(10, thing("a", 1, 1), thing("b", 2, 2))),
            pages(listing(90, thing("b", 2, 2), thing("c", 80, 3))),
        ],
        watches=[lost],
    )
    observed = Observed()
    with reflecting(collection, observed) as (reflector, server):
        assert {observed.next()[1], observed.next()[1]} == {"a", "b"}
        assert observed.next() == ("deleted", "a", 1, None)
        assert observed.next() == ("added", "c", None, 3)
        observed.await_connected()
        while len(watches_of(server)) < 2:
            observed.await_connected()
        assert reflector.items() == {key("b"): 2, key("c"): 3}
    assert watches_of(server)[-1]["resourceVersion"] == "90"


def test_an_expired_page_begins_the_list_anew() -> None:
    """A half list is never taken."""
    collection = Collection(
        lists=[
            pages(listing(10, thing("a", 1, 1), following="old")),
            lambda exchange: exchange.status(410, "Expired"),
            pages(listing(20, thing("b", 15, 2))),
        ]
    )
    observed = Observed()
    with reflecting(collection, observed) as (reflector, _):
        assert observed.next() == ("added", "b", None, 2)
        observed.await_connected()
        assert reflector.items() == {key("b"): 2}


def test_failures_are_tried_again() -> None:
    """Errors, cuts and nonsense in list and watch do not end it."""
    collection = Collection(
        lists=[
            lambda exchange: exchange.status(503, "ServiceUnavailable"),
            lambda exchange: exchange.send(200, b"{nonsense"),
            lambda exchange: exchange.json({}),
            pages(listing(10)),
        ],
        watches=[
            lambda exchange: exchange.cut(),
            lambda exchange: exchange.cut(),
            lambda exchange: exchange.status(429, "TooManyRequests"),
            stream({"type": "ADDED"}),
            stream({"type": "SOMETHING", "object": {}}),
            stream(event("ADDED", thing("a", 12, 1)), then="hold"),
        ],
    )
    observed = Observed()
    with reflecting(collection, observed) as (reflector, server):
        assert observed.next() == ("added", "a", None, 1)
        assert reflector.items() == {key("a"): 1}
    assert {watch["resourceVersion"] for watch in watches_of(server)} == {"10"}
    assert len(lists_of(server)) == 4


def test_a_version_that_never_works_is_given_up() -> None:
    """After a restored backup the server may wait for a version that is to come."""
    too_large = [lambda exchange: exchange.status(504, "Timeout", "Too large resource version")] * 5
    collection = Collection(lists=[pages(listing(99)), pages(listing(7))], watches=list(too_large))
    observed = Observed()
    with reflecting(collection, observed) as (_, server):
        observed.await_connected()
    assert [watch["resourceVersion"] for watch in watches_of(server)] == ["99"] * 5 + ["7"]


def test_a_watch_that_ends_at_once_is_not_opened_in_a_rush() -> None:
    """Without progress each try waits, although nothing failed."""
    collection = Collection(lists=[pages(listing(10))], watches=[stream()] * 100)
    observed = Observed()
    slow = Pace(silence_s=20, watch_s=20, first_wait_s=60, max_wait_s=60)
    with reflecting(collection, observed, slow) as (_, server):
        observed.await_connected()
        assert observed.connected.empty()
        with pytest.raises(queue.Empty):
            observed.connected.get(timeout=0.2)
    assert len(watches_of(server)) == 1


def test_silence_is_taken_for_a_dead_peer() -> None:
    """The watch is opened anew from where it stood."""
    collection = Collection(
        lists=[pages(listing(10))],
        watches=[
            stream(event("ADDED", thing("a", 11, 1)), then="hold"),
            stream(event("ADDED", thing("b", 12, 2)), then="hold"),
        ],
    )
    observed = Observed()
    pace = Pace(silence_s=0.1, watch_s=20, first_wait_s=0.01, max_wait_s=0.02)
    with reflecting(collection, observed, pace) as (_, server):
        assert observed.next() == ("added", "a", None, 1)
        assert observed.next() == ("added", "b", None, 2)
    assert [watch["resourceVersion"] for watch in watches_of(server)][:2] == ["10", "11"]


def test_one_bad_object_does_not_stop_the_others() -> None:
    """It is left out, and dropped if it had been known."""
    collection = Collection(
        lists=[pages(listing(10, thing("bad", 1, "x"), thing("good", 2, 1)))],
        watches=[
            stream(
                event("ADDED", {"metadata": {"resourceVersion": "11"}}),
                event("MODIFIED", thing("good", 12, "x")),
                event("ADDED", thing("other", 13, 3)),
                then="hold",
            )
        ],
    )
    observed = Observed()
    with reflecting(collection, observed) as (reflector, server):
        assert observed.next() == ("added", "good", None, 1)
        assert observed.next() == ("deleted", "good", 1, None)
        assert observed.next() == ("added", "other", None, 3)
        assert reflector.items() == {key("other"): 3}
    assert len(watches_of(server)) == 1


def test_a_failing_listener_does_not_stop_it() -> None:
    """The store goes on, and later changes are told."""
    seen: queue.Queue[str] = queue.Queue()

    def listen(change: Change[int]) -> None:
        seen.put(change.key.name)
        message = "listener broke"
        raise RuntimeError(message)

    collection = Collection(
        lists=[pages(listing(10, thing("a", 1, 1)))],
        watches=[stream(event("ADDED", thing("b", 11, 2)), then="hold")],
    )
    with reflecting(collection, Observed(), on_change=listen) as (reflector, _):
        assert [seen.get(timeout=WAIT_S), seen.get(timeout=WAIT_S)] == ["a", "b"]
        assert reflector.items() == {key("a"): 1, key("b"): 2}


def test_an_outage_is_survived() -> None:
    """A server that comes back with other objects is listed or resumed and the difference told."""
    collection = Collection(
        lists=[pages(listing(10, thing("a", 1, 1)))], watches=[stream(then="cut")]
    )
    observed = Observed()
    with reflecting(collection, observed) as (reflector, server):
        assert observed.next() == ("added", "a", None, 1)
        observed.await_connected(2)
        collection.lists.append(pages(listing(50)))
        collection.watches.append(lambda exchange: exchange.status(410, "Expired"))
        # The watch that is open now breaks, as all do when a server goes away.
        server.cut_connections()
        assert observed.next() == ("deleted", "a", 1, None)
        assert reflector.items() == {}


def test_it_is_not_synced_before_the_first_list() -> None:
    """Waiting ends with the time given."""
    with reflecting(Collection(), Observed()) as (reflector, _):
        assert not reflector.wait_synced(0.05)
        assert reflector.items() == {}


@pytest.mark.parametrize("answer", ["watch", "list"])
def test_stopping_ends_the_thread(answer: str) -> None:
    """An open watch and a wait between tries both end when told to."""
    collection = Collection(lists=[pages(listing(10))] if answer == "watch" else [])
    observed = Observed()
    pace = Pace(silence_s=60, watch_s=60, first_wait_s=60, max_wait_s=60)
    with reflecting(collection, observed, pace) as (reflector, server):
        if answer == "watch":
            observed.await_connected()
        while not server.requests:
            threading.Event().wait(0.01)
        reflector.stop()
        assert not reflector._thread.is_alive()
        reflector.stop()


def test_a_listener_may_stop_it() -> None:
    """The thread does not wait for itself."""
    stopped = threading.Event()
    holder: list[Reflector[int]] = []

    def listen(_change: Change[int]) -> None:
        holder[0].stop()
        stopped.set()

    collection = Collection(
        lists=[pages(listing(10))], watches=[stream(event("ADDED", thing("a", 11)), then="hold")]
    )
    observed = Observed()
    gate = threading.Event()
    with reflecting(
        collection, observed, on_change=listen, on_connected=lambda: gate.wait(WAIT_S)
    ) as (reflector, _):
        holder.append(reflector)
        gate.set()
        assert stopped.wait(WAIT_S)
        reflector._thread.join(WAIT_S)
        assert not reflector._thread.is_alive()
