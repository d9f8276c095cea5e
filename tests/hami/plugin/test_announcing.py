"""Tests of an announcer at work on an API server: what it writes, and when."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hami import handshake
from hami.nodenotes import CORDON, SCORE, PairScores
from hami.plugin.announcement import HANDSHAKE, REGISTER, RegisterFormat
from hami.plugin.announcing import Announcer, AnnouncerRules
from hami.plugin.model import Offer
from hami.plugin.ownnode import OwnNode
from kube import paths
from kube.client import MERGE_PATCH
from tests.fakes.api_server import ServerThread
from tests.hami.codecs import a_device
from tests.hami.plugin import schedulerside
from tests.patience import eventually

NODE = "node-1"
OFFER = Offer(cards=(a_device("GPU-a"), a_device("GPU-b", index=1)))
QUICK = AnnouncerRules(interval_s=0.05, retry_s=0.05, settle_s=0.01)
SLOW = AnnouncerRules(interval_s=300, retry_s=0.05, settle_s=0.01)


class Source:
    """What there is to announce, as a test says."""

    def __init__(self) -> None:
        self.offer: Offer | None = OFFER
        self.pairs: PairScores | None = None

    def look(self) -> Offer | None:
        """Return it."""
        return self.offer

    def scores(self) -> PairScores | None:
        """Return the points of pairs."""
        return self.pairs


class Scene(ServerThread):
    """An API server with a node, an administrator, and an announcer for the node."""

    def start(self) -> None:
        """Listen, and create the node."""
        super().start()
        self.admin, self.agent = self.client("admin"), self.client("agent")
        self.add_node()
        self.source = Source()

    def stop(self) -> None:
        """End the server."""
        self.admin.close()
        self.agent.close()
        super().stop()

    def add_node(self) -> None:
        """Create the node, as kubelet does."""
        self.admin.create(paths.nodes(), {"metadata": {"name": NODE}})

    def annotations(self) -> dict[str, str]:
        """Return those of the node as they are on the server."""
        node = json.loads(self.admin.get(paths.nodes(NODE)))
        found: dict[str, str] = node["metadata"].get("annotations", {})
        return found

    def annotate(self, **found: Any) -> None:
        """Write annotations as somebody else, `register` among them."""
        keys = {"register": REGISTER, "score": SCORE, "handshake": HANDSHAKE, "cordon": CORDON}
        body = {"metadata": {"annotations": {keys[key]: value for key, value in found.items()}}}
        self.admin.patch(paths.nodes(NODE), body, content_type=MERGE_PATCH)

    def asked(self, *verbs: str) -> int:
        """Return how many requests of these *verbs* the announcer has made."""
        records = self.call(lambda: list(self.server.requests))
        return sum(each.user == "agent" and each.verb in verbs for each in records)

    def cards(self) -> list[schedulerside.Card] | None:
        """Return what a scheduler finds; `None` where it finds nothing."""
        found = self.annotations()
        return schedulerside.new(found) if REGISTER in found else None

    @contextmanager
    def announcing(self, rules: AnnouncerRules = SLOW) -> Iterator[Announcer]:
        """Run an announcer."""
        node = OwnNode(client=self.agent, node_name=NODE)
        announcer = Announcer(node=node, source=self.source, rules=rules)
        node.listen(announcer.set)
        stopping = threading.Event()
        thread = threading.Thread(target=announcer.run, args=(stopping,))
        node.start()
        thread.start()
        try:
            yield announcer
        finally:
            stopping.set()
            announcer.set()
            thread.join(20)
            node.stop()
            assert not thread.is_alive()


@contextmanager
def scene() -> Iterator[Scene]:
    """Run a scene."""
    running = Scene()
    running.start()
    try:
        yield running
    finally:
        running.stop()


def settled(announcer: Announcer) -> None:
    """Wait until the node says what it should."""
    eventually(lambda: announcer.problem() is None)


def test_a_scheduler_finds_the_cards() -> None:
    """One write says all that the node has, and touches nothing else."""
    with scene() as where:
        where.annotate(cordon="GPU-b")
        with where.announcing() as announcer:
            settled(announcer)
            found = where.cards()
            assert found is not None
            assert [card.uuid for card in found] == ["GPU-a", "GPU-b"]
            assert where.annotations().keys() == {REGISTER, CORDON}
            assert where.annotations()[CORDON] == "GPU-b"
            assert where.asked("patch") == 1


def test_nothing_is_asked_at_rest() -> None:
    """Many looks lead to no request besides the one watch."""
    with scene() as where, where.announcing(QUICK) as announcer:
        settled(announcer)
        time.sleep(0.5)
        assert where.asked("patch") == 1
        assert where.asked("get", "update", "create", "delete") == 0
        assert where.asked("list") == 1
        assert where.asked("watch") == 1


def test_a_node_that_says_it_already_is_not_written() -> None:
    """A restart of the plugin is no write."""
    with scene() as where:
        with where.announcing() as announcer:
            settled(announcer)
        with where.announcing() as announcer:
            settled(announcer)
            assert where.asked("patch") == 1


@pytest.mark.parametrize("damage", [None, "", "[]", "garbage"])
def test_what_others_do_is_undone(damage: str | None) -> None:
    """An annotation that is deleted or overwritten is restored, though nothing has changed here."""
    with scene() as where, where.announcing() as announcer:
        settled(announcer)
        before = where.annotations()
        where.annotate(register=damage, cordon="GPU-a")
        eventually(lambda: where.asked("patch") == 2)
        eventually(lambda: where.annotations() == {**before, CORDON: "GPU-a"})


def test_a_change_is_written_once() -> None:
    """A card that falls ill is told soon, and not again."""
    with scene() as where, where.announcing() as announcer:
        settled(announcer)
        ill = replace(OFFER.cards[1], healthy=False)
        where.source.offer = Offer(cards=(OFFER.cards[0], ill))
        announcer.set()
        eventually(lambda: [card.healthy for card in where.cards() or ()] == [True, False])
        time.sleep(0.2)
        assert where.asked("patch") == 2


def test_a_failed_write_is_made_again() -> None:
    """What the server refused is not taken for written."""
    with scene() as where:
        where.call(where.server.fail_next, 3, 500, verb="patch")
        with where.announcing() as announcer:
            eventually(lambda: "not written" in (announcer.problem() or ""))
            eventually(lambda: where.cards() is not None)
            settled(announcer)
            assert where.asked("patch") == 4


def test_a_scheduler_that_knows_no_json() -> None:
    """Its form and a sign of life are written, and its questions answered at the interval."""
    rules = replace(QUICK, form=RegisterFormat.COLON)
    with scene() as where, where.announcing(rules) as announcer:
        settled(announcer)
        found = where.annotations()
        assert [card.uuid for card in schedulerside.old(found)] == ["GPU-a", "GPU-b"]
        for _ in range(3):
            assert handshake.read(where.annotations()[HANDSHAKE]).kind is handshake.Kind.REPORTED
            where.annotate(handshake=handshake.requesting(datetime.now(UTC)))
            eventually(lambda: "Reported" in where.annotations()[HANDSHAKE])
        assert where.asked("patch") == 4
        assert where.annotations()[REGISTER] == found[REGISTER]


def test_a_question_waits_for_the_interval() -> None:
    """A scheduler that asks after each answer does not make two programs write all the time."""
    with scene() as where, where.announcing(replace(SLOW, form=RegisterFormat.COLON)) as announcer:
        settled(announcer)
        where.annotate(handshake="Requesting_2026-11-30 07:00:00")
        time.sleep(0.3)
        assert where.asked("patch") == 1


def test_scores_are_written() -> None:
    """Once the links are known they are on the node, and go when the policy does."""
    with scene() as where:
        with where.announcing(replace(SLOW, topology=True)) as announcer:
            settled(announcer)
            assert SCORE not in where.annotations()
            where.source.pairs = {"GPU-a": {"GPU-b": 10}, "GPU-b": {"GPU-a": 10}}
            announcer.set()
            eventually(lambda: SCORE in where.annotations())
            assert json.loads(where.annotations()[SCORE])[0]["score"] == {"GPU-b": 10}
        with where.announcing() as announcer:
            eventually(lambda: SCORE not in where.annotations())


def test_two_who_write_the_same() -> None:
    """Somebody who writes again and again is answered some seconds later each time, not at once."""
    with scene() as where, where.announcing(replace(SLOW, retry_s=300)) as announcer:
        settled(announcer)
        where.annotate(register="[]")
        time.sleep(0.3)
        assert where.asked("patch") == 1


def test_what_is_not_known_is_not_announced() -> None:
    """A node is not announced before its GPUs are read, and at once then."""
    with scene() as where:
        where.source.offer = None
        with where.announcing(replace(SLOW, retry_s=20)) as announcer:
            eventually(lambda: "not known" in (announcer.problem() or ""))
            assert where.annotations() == {}
            where.source.offer = OFFER
            announcer.set()
            settled(announcer)
            assert where.cards()


def test_a_node_that_comes_again() -> None:
    """A Node that is deleted and registered anew is announced anew."""
    with scene() as where, where.announcing() as announcer:
        settled(announcer)
        where.admin.delete(paths.nodes(NODE))
        eventually(lambda: "no Node object" in (announcer.problem() or ""))
        where.add_node()
        eventually(lambda: where.cards() is not None)


def test_no_cards() -> None:
    """A node that offers nothing says so, and does not keep what it had."""
    with scene() as where, where.announcing() as announcer:
        settled(announcer)
        where.source.offer = Offer(cards=())
        announcer.set()
        eventually(lambda: where.cards() == [])


def test_withdrawal() -> None:
    """A node that is served in another way says nothing more of ours, and keeps the rest."""
    with scene() as where:
        where.annotate(cordon="GPU-a", score="[]", handshake="Reported")
        node = OwnNode(client=where.agent, node_name=NODE)
        announcer = Announcer(node=node, source=where.source)
        node.start()
        try:
            assert node.wait_synced(20)
            announcer.withdraw()
            assert where.annotations() == {CORDON: "GPU-a"}
            announcer.withdraw()
            assert where.asked("patch") == 1
        finally:
            node.stop()
