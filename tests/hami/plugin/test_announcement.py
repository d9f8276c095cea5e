"""Tests of what the annotations of a node should say."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami import handshake
from hami.annotations import decode_register, decode_scores
from hami.devices import RegisteredDevice
from hami.nodenotes import SCORE
from hami.plugin.announcement import (
    HANDSHAKE,
    REGISTER,
    RegisterFormat,
    announcement,
    changes,
    reported,
)
from hami.plugin.model import Offer
from tests.hami.codecs import NVIDIA, a_device
from tests.hami.plugin import schedulerside
from tests.hami.plugin.schedulerside import Card

JSON, COLON = RegisterFormat.JSON, RegisterFormat.COLON
OFFER = Offer(cards=(a_device("GPU-a"), a_device("GPU-b", index=1, numa=1, healthy=False)))
NOW = datetime(2026, 11, 30, 7, 0, 0, 250_000, UTC)


def written(
    form: RegisterFormat = JSON,
    *,
    live: dict[str, str] | None = None,
    is_due: bool = True,
    topology: bool = False,
    scores: dict[str, dict[str, int]] | None = None,
) -> dict[str, str | None]:
    """Return what has to be written on a node with *live* annotations."""
    wanted = announcement(OFFER, form=form, topology=topology, scores=scores)
    return changes(wanted, live or {}, now=NOW, is_due=is_due)


def text(found: dict[str, str | None], key: str) -> str:
    """Return an annotation that is there."""
    value = found[key]
    assert value is not None
    return value


@pytest.mark.parametrize("form", [JSON, COLON])
def test_schedulers_read_what_is_written(form: RegisterFormat) -> None:
    """A scheduler of the form finds the cards, and so does ours; they are written once."""
    found = written(form)
    read = schedulerside.new if form is JSON else schedulerside.old
    assert read({REGISTER: text(found, REGISTER)}) == [
        Card("GPU-a", 10, 40960, 100, "NVIDIA A100-SXM4-40GB", 0, True, 0, "hami-core"),
        Card("GPU-b", 10, 40960, 100, "NVIDIA A100-SXM4-40GB", 1, False, 1, "hami-core"),
    ]
    assert decode_register(NVIDIA, text(found, REGISTER), node_name="n") == OFFER.cards
    assert written(form, live={key: text(found, key) for key in found}) == {}


CARDS = st.lists(
    st.builds(
        a_device,
        st.uuids().map(lambda uuid: f"GPU-{uuid}"),
        index=st.integers(0, 1023),
        count=st.integers(1, 1000),
        memory_mib=st.integers(1, 2**31 - 1),
        cores=st.integers(1, 10_000),
        type=st.text("ABCabc 0123-<>&", min_size=1),
        numa=st.integers(0, 7),
        healthy=st.booleans(),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda card: card.uuid,
)


@given(CARDS)
def test_any_cards(cards: list[RegisteredDevice]) -> None:
    """Both forms say the same to schedulers that know nothing of our code."""
    offer = Offer(cards=tuple(cards))
    texts = {
        form: announcement(offer, form=form, topology=False, scores=None).register
        for form in (JSON, COLON)
    }
    new = schedulerside.new({REGISTER: texts[JSON]})
    assert new == schedulerside.old({REGISTER: texts[COLON]})
    assert [card.uuid for card in new] == [card.uuid for card in cards]
    assert [card.memory_mib for card in new] == [card.memory_mib for card in cards]


def test_schedulers_of_v2_4() -> None:
    """They read seven fields and nothing else, and want signs of life as those after them do."""
    found = written(RegisterFormat.COLON_7)
    read = schedulerside.oldest({REGISTER: text(found, REGISTER)})
    assert [(card.uuid, card.memory_mib, card.healthy) for card in read] == [
        ("GPU-a", 40960, True),
        ("GPU-b", 40960, False),
    ]
    assert text(found, HANDSHAKE).startswith("Reported ")
    decoded = decode_register(NVIDIA, text(found, REGISTER), node_name="n")
    assert isinstance(decoded, tuple)
    assert [card.uuid for card in decoded] == ["GPU-a", "GPU-b"]


def test_new_schedulers_get_no_handshake() -> None:
    """Schedulers since v2.8 need no sign of life, and their question stays as it is."""
    for value in ({}, {HANDSHAKE: "Requesting_2026-11-30 06:59:59"}):
        assert HANDSHAKE not in written(JSON, live=value)


@pytest.mark.parametrize(
    ("value", "is_due", "answers"),
    [
        (None, False, True),
        ("Deleted_2026-11-30 06:00:00", False, True),
        ("garbage", False, True),
        ("Requesting_2026-11-30 06:59:59", False, False),
        ("Requesting_2026-11-30 06:59:59", True, True),
        ("Requesting_2026.11.30 06:59:59", True, True),
        ("Reported 2020-01-01 00:00:00 +0000 UTC", True, False),
    ],
)
def test_old_schedulers_get_signs_of_life(
    value: str | None, *, is_due: bool, answers: bool
) -> None:
    """A question is answered when that is due; what is no answer is made one at once."""
    live = {} if value is None else {HANDSHAKE: value}
    assert (HANDSHAKE in written(COLON, live=live, is_due=is_due)) is answers


def test_an_answer() -> None:
    """It is a time as Go prints it, from which all schedulers conclude that the node lives."""
    value = reported(NOW.astimezone(timezone(timedelta(hours=5))))
    assert value == "Reported 2026-11-30 07:00:00.250000 +0000 UTC"
    stamp = handshake.read(value)
    assert (stamp.kind, stamp.at) == (handshake.Kind.REPORTED, NOW.replace(microsecond=0))
    later = NOW + timedelta(hours=1)
    assert handshake.health(value, later, 0) == handshake.Health(healthy=True, needs_update=True)


def test_scores() -> None:
    """The points of pairs are written where that is set, as HAMi writes them."""
    scores = {"GPU-a": {"GPU-b": 230}, "GPU-b": {"GPU-a": 230}}
    found = written(topology=True, scores=scores)
    assert text(found, SCORE) == (
        '[{"uuid":"GPU-a","score":{"GPU-b":230}},{"uuid":"GPU-b","score":{"GPU-a":230}}]'
    )
    assert decode_scores(text(found, SCORE)) == scores


@pytest.mark.parametrize(
    ("topology", "known", "is_changed"),
    [(False, True, True), (True, False, False), (True, True, True)],
)
def test_old_scores(*, topology: bool, known: bool, is_changed: bool) -> None:
    """A score that nobody keeps is taken away; while the links are not known it stays."""
    live = {SCORE: "[]"}
    found = written(live=live, topology=topology, scores={"GPU-a": {}} if known else None)
    assert (SCORE in found) is is_changed
    if not topology:
        assert found[SCORE] is None


def test_no_score_is_nothing_to_take_away() -> None:
    """Where no score is and none shall be, nothing is written of it."""
    assert SCORE not in written()
