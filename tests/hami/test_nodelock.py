"""Tests of the lock of a node."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami import cambriconlock, nodelock
from hami.annotations import Undecodable
from hami.nodelock import Decision, NodeLock, Owner, Verdict
from tests.hami.codecs import NAMES, TIMES, reason

NOW = datetime(2026, 8, 21, 10, 0, 0, tzinfo=UTC)
POD, OTHER = Owner("default", "gpu-pod-1"), Owner("default", "gpu-pod-2")
OURS, THEIRS = (f"2026-08-21T09:58:00Z,default,{name}" for name in ("gpu-pod-1", "gpu-pod-2"))
CONTENTION = "node n has been locked within 5m0s: node lock contention"


def decide(
    value: str | None,
    *,
    is_held: bool | None = None,
    now: datetime = NOW,
    timeout: timedelta = nodelock.TIMEOUT,
) -> Decision:
    """Return what the first pod is to do."""
    return nodelock.decide(
        value, owner=POD, node="n", now=now, timeout=timeout, is_held_by_a_pod=is_held
    )


def test_three_parts_are_written() -> None:
    """Time, namespace and name; the time in UTC."""
    at = datetime(2026, 8, 21, 18, 0, 0, 999, tzinfo=timezone(timedelta(hours=8)))
    text = nodelock.encode(NodeLock(at=at, owner=POD))
    assert text == "2026-08-21T10:00:00Z,default,gpu-pod-1"
    assert nodelock.parse(text) == NodeLock(at=NOW, owner=POD)


@pytest.mark.parametrize(
    "text",
    [
        "2026-08-21T10:00:00Z",
        "2026-08-21T18:00:00+08:00",
        "2026-08-21T03:00:00-07:00",
        "2026-08-21T10:00:00.000000000Z",
        "2026-08-21T10:00:00Z,,",
    ],
)
def test_a_bare_time(text: str) -> None:
    """Older writers name nobody; all offsets are read."""
    assert nodelock.parse(text) == NodeLock(at=NOW)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not of the form"),
        ("locked", "is not of the form"),
        ("2026-08-21 10:00:00", "is not of the form"),
        ("2026-08-21T10:00:00", "is not of the form"),
        ("2026-08-21T24:00:00Z", "is not of the form"),
        ("2026-02-30T10:00:00Z", "does not exist"),
        ("2026-08-21T10:00:00+24:00", "does not exist"),
        ("0001-01-01T00:00:00+08:00", "does not exist"),
        (
            "2026-08-21T10:00:00Z,default",
            "malformed lock annotation: expected 3 parts, got 2 from 2026-08-21T10:00:00Z,default",
        ),
        ("2026-08-21T10:00:00Z,default,p,uid", "expected 3 parts, got 4"),
        ("x,default,p", "is not of the form"),
        ("2026-08-21T10:00:00Z,\ud800,p", "no valid text"),
    ],
)
def test_malformed(text: str, why: str) -> None:
    """It has one or three parts, and the first is a time."""
    assert why in reason(nodelock.parse(text))


@pytest.mark.parametrize("owner", [Owner("a,b", "c"), Owner("", "c"), Owner("a", "")])
def test_what_could_not_be_read_is_not_written(owner: Owner) -> None:
    """The parts are exactly three."""
    with pytest.raises(ValueError, match="told apart"):
        nodelock.encode(NodeLock(at=NOW, owner=owner))


@pytest.mark.parametrize("is_held", [None, True, False])
def test_free_ours_and_expired_need_no_look(*, is_held: bool | None) -> None:
    """Whether the holder is there changes nothing."""
    assert decide(None, is_held=is_held) == Decision(verdict=Verdict.SET)
    assert decide(OURS, is_held=is_held) == Decision(verdict=Verdict.OURS)
    old = "2026-08-21T09:54:59Z"
    for value in (old, f"{old},default,gpu-pod-2", f"{old},default,gpu-pod-1"):
        assert decide(value, is_held=is_held).verdict is Verdict.BREAK


def test_somebody_elses() -> None:
    """It stands as long as its pod is there."""
    assert decide(THEIRS) == Decision(verdict=Verdict.LOOK, owner=OTHER)
    assert decide(THEIRS, is_held=False) == Decision(verdict=Verdict.BREAK, owner=OTHER)
    expected = Decision(verdict=Verdict.WAIT, owner=OTHER, text=CONTENTION)
    assert decide(THEIRS, is_held=True) == expected


@pytest.mark.parametrize("is_held", [None, True, False])
def test_nobodys(*, is_held: bool | None) -> None:
    """A lock that names no pod stands until it is too old."""
    expected = Decision(verdict=Verdict.WAIT, text=CONTENTION)
    assert decide("2026-08-21T09:58:00Z", is_held=is_held) == expected


def test_malformed_stands() -> None:
    """HAMi's words say what is wrong."""
    found = decide("2026-08-21T10:00:00Z,default")
    assert found.verdict is Verdict.MALFORMED
    assert found.text.startswith("malformed lock annotation: expected 3 parts, got 2 from ")


def test_the_time_that_it_holds() -> None:
    """The last moment is still held, and a clock that is behind changes nothing."""
    at = NOW - timedelta(minutes=2)
    for timeout, verdict in ((120, Verdict.WAIT), (119, Verdict.BREAK)):
        found = decide(THEIRS, is_held=True, timeout=timedelta(seconds=timeout))
        assert found.verdict is verdict
    early = decide(THEIRS, is_held=True, now=at - timedelta(days=1))
    assert early.verdict is Verdict.WAIT
    seven = decide(THEIRS, is_held=True, timeout=timedelta(minutes=7))
    assert seven.text == "node n has been locked within 7m0s: node lock contention"


@pytest.mark.parametrize(
    ("value", "broken", "expected"),
    [
        (None, None, False),
        (OURS, None, True),
        (THEIRS, None, False),
        ("2026-08-21T09:58:00Z", None, True),
        ("nonsense", None, True),
        ("x,y", None, False),
        (THEIRS, THEIRS, True),
        (THEIRS, OURS, False),
        ("2026-08-21T09:59:00Z,default,gpu-pod-2", THEIRS, False),
        ("2026-08-21T09:58:00Z,default,my-gpu-pod-1", None, False),
    ],
)
def test_who_may_release(value: str | None, broken: str | None, *, expected: bool) -> None:
    """Its owner, anybody where none is named, and who breaks what he has read."""
    assert nodelock.may_release(value, POD, broken=broken) is expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (300, "5m0s"),
        (0, "0s"),
        (30, "30s"),
        (90.5, "1m30.5s"),
        (3600, "1h0m0s"),
        (93784, "26h3m4s"),
        (0.1, "100ms"),
        (0.0015, "1.5ms"),
        (0.00002, "20µs"),
        (-1.25, "-1.25s"),
    ],
)
def test_durations_as_go_writes_them(seconds: float, text: str) -> None:
    """They stand in HAMi's messages."""
    assert nodelock.go_duration(timedelta(seconds=seconds)) == text


def test_cambricon() -> None:
    """A bare time, two minutes, and nobody's."""
    value = cambriconlock.value(NOW)
    assert value == "2026-08-21T10:00:00Z"
    cases = {119: Verdict.WAIT, 120: Verdict.BREAK, 0: Verdict.WAIT}
    for seconds, verdict in cases.items():
        found = cambriconlock.decide(value, node="n", now=NOW + timedelta(seconds=seconds))
        assert found.verdict is verdict
        assert found.text == (
            "node n has been locked within 2 minutes" if verdict is Verdict.WAIT else ""
        )
    assert cambriconlock.decide(None, node="n", now=NOW).verdict is Verdict.SET
    assert cambriconlock.decide("x", node="n", now=NOW).verdict is Verdict.MALFORMED


@given(TIMES, st.one_of(st.none(), st.builds(Owner, NAMES, NAMES)))
def test_round_trip(at: datetime, owner: Owner | None) -> None:
    """What is written is read as it was."""
    lock = NodeLock(at=at.replace(microsecond=0), owner=owner)
    assert nodelock.parse(nodelock.encode(lock)) == lock


@given(st.one_of(st.text(), st.text("0123456789-:TZ+.,ab", max_size=40)))
def test_no_text_raises(text: str) -> None:
    """Whatever stands there, there is a decision."""
    found = nodelock.parse(text)
    decision = decide(text, is_held=True)
    assert (decision.verdict is Verdict.MALFORMED) == isinstance(found, Undecodable)
    if isinstance(found, NodeLock):
        again = nodelock.parse(nodelock.encode(found))
        assert again == NodeLock(at=found.at.replace(microsecond=0), owner=found.owner)
