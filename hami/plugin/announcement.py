"""What the annotations of a node should say, and what has to be written for that: no I/O.

HAMi's schedulers since v2.8 read the cards from JSON and take the number that kubelet offers for a
sign of life. Those up to v2.7 read the colon form, of nine fields since v2.5 and of seven before;
none reads more than it knows. They ask a question in the node's handshake that must be answered
within 60 s (HAMi v2.7: `pkg/device/nvidia/device.go`), and ask again after every answer: there is
something to write as long as one of them runs, and not otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from hami import handshake, register_colon, register_json
from hami.backends import NvidiaBackend
from hami.nodenotes import SCORE, PairScores, encode_scores
from hami.plugin.model import Offer

_BACKEND: Final = NvidiaBackend(count_name="")
REGISTER: Final = _BACKEND.register_key
HANDSHAKE: Final = _BACKEND.handshake_key
OURS: Final = (REGISTER, SCORE, HANDSHAKE)
"""All annotations that are written here."""


class RegisterFormat(StrEnum):
    """How the cards are written."""

    JSON = "json"
    COLON = "colon"
    """For schedulers of v2.5 to v2.7, which also get signs of life."""
    COLON_7 = "colon-7"
    """The same for those of v2.4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a node should say."""

    register: str
    score: str | None
    """`None` where there shall be none."""
    keeps_score: bool = False
    """Whether a score that is there may stay, because it is not known yet what it should be."""
    answers: bool = False
    """Whether questions in the handshake are answered."""


def announcement(
    offer: Offer, *, form: RegisterFormat, topology: bool, scores: PairScores | None
) -> Announcement:
    """Return what a node with *offer* should say; *scores* are `None` while they are not known."""
    has_scores = topology and scores is not None
    return Announcement(
        register=_register(offer, form),
        score=encode_scores(scores) if has_scores and scores is not None else None,
        keeps_score=topology and scores is None,
        answers=form is not RegisterFormat.JSON,
    )


def changes(
    wanted: Announcement, live: Mapping[str, str], *, now: datetime, is_due: bool
) -> dict[str, str | None]:
    """Return the annotations to write where *live* are there; `None` takes one away.

    A question is answered only when that *is_due*: its asker asks again at once.
    """
    found: dict[str, str | None] = {REGISTER: wanted.register}
    if not wanted.keeps_score:
        found[SCORE] = wanted.score
    if wanted.answers and _is_to_answer(live.get(HANDSHAKE), is_due=is_due):
        found[HANDSHAKE] = reported(now)
    return {key: value for key, value in found.items() if live.get(key) != value}


def reported(now: datetime) -> str:
    """Return the answer of *now*, which is a time with a zone, as Go prints times."""
    return f"Reported {now.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} +0000 UTC"


def _is_to_answer(value: str | None, *, is_due: bool) -> bool:
    kind = handshake.read(value).kind
    if kind is handshake.Kind.REQUESTING:
        return is_due
    return kind is not handshake.Kind.REPORTED


def _register(offer: Offer, form: RegisterFormat) -> str:
    match form:
        case RegisterFormat.JSON:
            return register_json.write(offer.cards)
        case RegisterFormat.COLON:
            return register_colon.write(offer.cards)
        case RegisterFormat.COLON_7:
            return register_colon.write_old(offer.cards)
