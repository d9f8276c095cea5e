"""The reflector with a server that behaves well."""

import json
import queue
import threading
from dataclasses import replace

import pytest

from kube.objects import JsonObject
from kube.reflector import Change, Pace, Parsing, Reflector
from tests.fakes.scripted_collection import Collection, event, listing, pages, stream, thing
from tests.fakes.scripted_server import Exchange
from tests.kube.reflecting import (
    FAST,
    WAIT_S,
    Observed,
    key,
    lists_of,
    reflecting,
    watches_of,
)


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


def test_a_watch_that_lasted_is_told_apart_from_one_that_broke() -> None:
    """After one that ended too early the server may be another one; the other is a renewal."""
    in_time = stream(event("BOOKMARK", {"metadata": {"resourceVersion": "20"}}))
    too_early = stream(event("BOOKMARK", {"metadata": {"resourceVersion": "30"}}), then="cut")
    collection = Collection(lists=[pages(listing(10))], watches=[in_time, in_time, too_early])
    observed = Observed()
    # A watch that is asked to last one second is in time whenever it ends.
    renewed: queue.Queue[None] = queue.Queue()
    pace = replace(FAST, watch_s=1)
    with reflecting(collection, observed, pace, on_renewed=lambda: renewed.put(None)) as (
        _,
        server,
    ):
        observed.await_connected(2)
        assert observed.connected.empty()
    assert renewed.qsize() == 2
    assert [watch["resourceVersion"] for watch in watches_of(server)] == ["10", "20", "20", "30"]


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


def test_an_eager_one_tells_of_its_first_list_page_by_page() -> None:
    """What is on the first page is told before the second one comes, but not as complete."""
    second = threading.Event()

    def wait(exchange: Exchange) -> None:
        assert second.wait(WAIT_S)
        pages(listing(10, thing("b", 4, 2)))(exchange)

    collection = Collection(
        lists=[pages(listing(10, thing("a", 3, 1), following="more")), wait],
        watches=[stream(then="hold")],
    )
    observed = Observed()
    with reflecting(collection, observed, eager=True) as (reflector, _):
        assert observed.next() == ("added", "a", None, 1)
        assert not reflector.wait_synced(0)
        second.set()
        assert observed.next() == ("added", "b", None, 2)
        assert reflector.wait_synced(WAIT_S)


def test_an_eager_one_that_was_cut_off_tells_the_difference() -> None:
    """What the list shows no more when it is read again is told as deleted."""
    collection = Collection(
        lists=[
            pages(listing(10, thing("a", 3, 1), thing("b", 4, 2), following="more")),
            lambda exchange: exchange.status(410, "Expired"),
            pages(listing(20, thing("b", 4, 2), thing("c", 12, 3))),
        ],
        watches=[stream(then="hold")],
    )
    observed = Observed()
    with reflecting(collection, observed, eager=True) as (reflector, _):
        told = [observed.next() for _ in range(4)]
        assert reflector.wait_synced(WAIT_S)
        assert reflector.items() == {key("b"): 2, key("c"): 3}
    assert told == [
        ("added", "a", None, 1),
        ("added", "b", None, 2),
        ("deleted", "a", 1, None),
        ("added", "c", None, 3),
    ]


def test_the_next_page_is_asked_for_while_one_is_taken() -> None:
    """A page is on its way before the last object of the one before is decoded."""
    asked = threading.Event()

    def more(exchange: Exchange) -> None:
        asked.set()
        pages(listing(10))(exchange)

    def slow(item: JsonObject) -> int:
        assert asked.wait(WAIT_S)
        return int(item["value"])

    collection = Collection(
        lists=[pages(listing(10, thing("a", 3, 1), following="more")), more],
        watches=[stream(then="hold")],
    )
    with reflecting(collection, Observed(), decode=slow) as (reflector, _):
        assert reflector.wait_synced(WAIT_S)
        assert reflector.items() == {key("a"): 1}


def test_bytes_can_be_read_in_another_way() -> None:
    """Lists and events pass through the given functions; the limit of pages is the given one."""

    def event_of(line: bytes) -> JsonObject:
        said: JsonObject = json.loads(line)
        said["object"] |= {"value": said["object"]["value"] + 100}
        return said

    def page_of(body: bytes) -> JsonObject:
        said: JsonObject = json.loads(body)
        return said | {"items": iter([{**each, "value": -1} for each in said["items"]])}

    collection = Collection(
        lists=[pages(listing(10, thing("a", 3, 1)))],
        watches=[stream(event("ADDED", thing("b", 11, 5)), then="hold")],
    )
    observed = Observed()
    parsing = Parsing(page=page_of, event=event_of)
    with reflecting(collection, observed, parsing=parsing, limit=7) as (_, server):
        assert observed.next() == ("added", "a", None, -1)
        assert observed.next() == ("added", "b", None, 105)
    assert lists_of(server)[0]["limit"] == "7"


def test_errors_of_a_watch_are_read_whole() -> None:
    """A reader that leaves fields out hides nothing of what the server says went wrong."""

    def event_of(line: bytes) -> JsonObject:
        return {"type": json.loads(line)["type"], "object": {}}

    expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    collection = Collection(
        lists=[pages(listing(10)), pages(listing(20, thing("a", 12, 2)))],
        watches=[stream(event("ERROR", expired)), stream(then="hold")],
    )
    observed = Observed()
    with reflecting(collection, observed, parsing=Parsing(event=event_of)) as (_, server):
        assert observed.next() == ("added", "a", None, 2)
    assert len(lists_of(server)) == 2
