"""The reflector with servers that forget, fail, break off and fall silent."""

import queue
from collections.abc import Callable

import pytest

from kube.reflector import Pace
from tests.fakes.scripted_collection import Collection, event, listing, pages, stream, thing
from tests.fakes.scripted_server import Exchange, status
from tests.kube.reflecting import Observed, key, lists_of, reflecting, watches_of


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
    pace = Pace(silence_s=0.5, watch_s=20, first_wait_s=0.01, max_wait_s=0.02)
    with reflecting(collection, observed, pace) as (_, server):
        assert observed.next() == ("added", "a", None, 1)
        assert observed.next() == ("added", "b", None, 2)
    assert [watch["resourceVersion"] for watch in watches_of(server)][:2] == ["10", "11"]


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
