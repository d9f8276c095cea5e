"""Short annotations of nodes: signs of life, locks, links between GPUs."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from hami import handshake, nodelock
from hami.annotations import PairScores, Undecodable, decode_scores, encode_scores
from hami.handshake import Health
from hami.nodelock import Decision, Owner, Verdict
from tests.fuzz.mutation import spoiled_string, spoiled_text
from tests.fuzz.running import expect

NOW: Final = datetime(2026, 8, 21, 10, 0, 0, tzinfo=UTC)
_POD: Final = Owner("default", "pod-1")
_STAMPS: Final = (
    *("Requesting_2026-08-21 09:59:30", "Requesting_2026-08-21 09:00:00", "Requesting"),
    *("Requesting_2024.01.10 04:06:57", "Reported 2026-08-21 09:59:59.4 +0000 UTC m=+17.7"),
    *("Deleted_2026-05-01 10:00:00", "Requesting_not-a-time", ""),
)
_QUESTION: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?", re.ASCII)
_LOCKS: Final = (
    *("2026-08-21T09:59:00Z,default,pod-1", "2026-08-21T09:59:00Z,default,pod-2"),
    *(
        "2026-08-21T17:50:00+08:00,default,pod-1",
        "2026-08-21T09:59:00Z",
        "2026-08-21T09:00:00Z,a,b",
    ),
)
_SCORES: Final = [
    {"uuid": "GPU-0", "score": {"GPU-1": 50, "GPU-2": 20}},
    {"uuid": "GPU-1", "score": {"GPU-0": 50}},
    {"uuid": "GPU-2"},
]


def _health(value: str, allocatable: int) -> Health:
    return handshake.health(value, NOW, allocatable, zone=UTC)


@dataclass(frozen=True, slots=True)
class Handshakes:
    """Stamps near those of schedulers and plugins."""

    read: Callable[[str, int], Health] = field(default=_health)
    name: str = "handshakes"
    weight: int = 8

    def make(self, rng: Random) -> list[Any]:
        """Return a stamp and how many devices are offered."""
        text = rng.choice(_STAMPS)
        for _ in range(rng.choice((0, 1, 1, 2))):
            text = spoiled_string(rng, text)
        return [text, rng.choice((0, 0, 0, 8))]

    def check(self, sample: list[Any]) -> bool:
        """See that only an old question on an empty node makes it unhealthy."""
        text, allocatable = sample
        found = self.read(text, allocatable)
        at = _asked_at(text)
        is_old = at is not None and at + timedelta(seconds=60) <= NOW
        expected = Health(not (is_old and not allocatable), "Requesting" not in text)
        expect(found == expected, f"another health: {found}")
        return found.healthy

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _asked_at(text: str) -> datetime | None:
    found = _QUESTION.fullmatch(text.partition("_")[2]) if "Requesting" in text else None
    if found is None:
        return None
    try:
        return datetime.strptime(f"{found[1]} +0000", "%Y-%m-%d %H:%M:%S %z")
    except ValueError:
        return None


def _decide(value: str, is_held: bool | None) -> Decision:  # noqa: FBT001 - made by the fuzzer
    return nodelock.decide(value, owner=_POD, node="n", now=NOW, is_held_by_a_pod=is_held)


@dataclass(frozen=True, slots=True)
class NodeLocks:
    """Locks near those of schedulers."""

    read: Callable[[str, bool | None], Decision] = field(default=_decide)
    name: str = "node-locks"
    weight: int = 8

    def make(self, rng: Random) -> list[Any]:
        """Return a lock, and whether the pod that holds it is there."""
        text = rng.choice(_LOCKS)
        for _ in range(rng.choice((0, 1, 1, 2))):
            text = spoiled_string(rng, text)
        return [text, rng.choice((None, True, False))]

    def check(self, sample: list[Any]) -> bool:
        """See that a lock that may be somebody's is not taken."""
        text, is_held = sample
        found = self.read(text, is_held)
        expect(self.read(text, is_held) == found, "another answer the second time")
        if found.verdict is Verdict.MALFORMED:
            expect(text not in _LOCKS, "a scheduler's own is refused")
            expect(found.text, "no reason")
            return False
        parts = text.split(",")
        expect(len(parts) in {1, 3}, "not three parts")
        at = datetime.fromisoformat(parts[0])
        if found.verdict is Verdict.OURS:
            expect(text.endswith(",default,pod-1"), "somebody else's is ours")
        if found.verdict is Verdict.BREAK and NOW - at <= nodelock.TIMEOUT:
            expect(is_held is False and all(parts), "a lock is broken that is held")
        if found.verdict is Verdict.WAIT:
            expect(is_held or not all(parts) or len(parts) == 1, "waits for nobody")
            expect("node lock contention" in found.text, "other words")
        expect(found.verdict is not Verdict.SET, "a lock is overwritten")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Links near those that HAMi's plugin writes."""

    read: Callable[[str], PairScores | Undecodable] = decode_scores
    name: str = "pair-scores"
    weight: int = 8

    def make(self, rng: Random) -> str:
        """Return a text."""
        return spoiled_text(rng, _SCORES).decode("utf-8", "surrogateescape")

    def check(self, sample: str) -> bool:
        """Compare with the text."""
        found = self.read(sample)
        expect(self.read(sample) == found, "another answer the second time")
        if isinstance(found, Undecodable):
            expect(sample != json.dumps(_SCORES), f"a plugin's own is refused: {found}")
            return False
        rows = [{k.lower(): v for k, v in each.items()} for each in json.loads(sample) or ()]
        said = {each["uuid"]: each.get("score") or {} for each in rows}
        expect(found == said and len(rows) == len(found), f"other scores: {found}")
        expect(self.read(encode_scores(found)) == found, "another value once written")
        return True

    def close(self) -> None:
        """Do nothing: nothing is held."""
