"""The annotation of a node by which one pod at a time is bound to it.

HAMi's device plugin cannot be told for which pod kubelet calls it; it takes the pod that holds this
lock, and removes the lock when it is done. The value is `<RFC 3339>,<namespace>,<name>`, before
that a bare time; exactly three parts, so a UID has no place in it. Rules as in HAMi v2.10
(`pkg/util/nodelock/nodelock.go`), as pure decisions: who carries them out patches with the
resourceVersion of the node that was read, and after a conflict reads and decides again.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from hami.reading import Undecodable, UnreadableError, decoded, unreadable
from hami.wording import shown

TIMEOUT: Final = timedelta(minutes=5)
"""How long a lock holds by default."""
RETRY_TIMEOUT: Final = timedelta(seconds=28)
"""How long pods of a group wait for it by default, and how often they try."""
RETRY_EVERY: Final = timedelta(milliseconds=100)
_PARTS: Final = 3
_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)


class Owner(NamedTuple):
    """The pod that holds a lock."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLock:
    """A lock once read."""

    at: datetime
    """With a zone."""
    owner: Owner | None = None
    """Older writers name none."""


class Verdict(StrEnum):
    """What to do about a lock that one wants."""

    SET = "set"
    """There is none."""
    OURS = "ours"
    """It is held already, maybe for another vendor's devices of the same pod."""
    BREAK = "break"
    """Remove it if it is still the same, then set it: it is too old, or its pod is gone."""
    LOOK = "look"
    """Find out whether its pod is still there, then decide again."""
    WAIT = "wait"
    """Somebody else is at it."""
    MALFORMED = "malformed"
    """Nobody can read it, so it stands until somebody removes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict; *text* is the error in HAMi's words where there is one."""

    verdict: Verdict
    owner: Owner | None = None
    """Whose pod to look for."""
    text: str = ""


def encode(lock: NodeLock) -> str:
    """Return the annotation, its time in UTC; raises `ValueError` for a name with a comma."""
    parts = (rfc3339(lock.at), *(lock.owner or ()))
    text = ",".join(parts)
    if text.count(",") != len(parts) - 1 or not all(parts):
        message = f"`{shown(text)}` cannot be told apart"
        raise UnreadableError(message)
    return text


def parse(text: str) -> NodeLock | Undecodable:
    """Return the lock, or why it is none; one of empty names has no owner."""
    return decoded(_read, text)


def decide(
    value: str | None,
    *,
    owner: Owner,
    node: str,
    now: datetime,
    timeout: timedelta = TIMEOUT,
    is_held_by_a_pod: bool | None = None,
) -> Decision:
    """Tell what *owner* is to do about the lock of *node* that reads *value*.

    *is_held_by_a_pod* says whether the pod that holds it is still there; `None` before one looked.
    """
    if value is None:
        return Decision(verdict=Verdict.SET)
    lock = parse(value)
    if isinstance(lock, Undecodable):
        return Decision(verdict=Verdict.MALFORMED, text=lock.reason)
    if now - lock.at > timeout:
        return Decision(verdict=Verdict.BREAK)
    return _of_others(lock, owner, contention(node, timeout), is_held=is_held_by_a_pod)


def may_release(value: str | None, owner: Owner, *, broken: str | None = None) -> bool:
    """Tell whether the lock that reads *value* is for *owner* to remove.

    One that names nobody may be removed by anybody. *broken* is what was read when it was decided
    to break it: only then somebody else's is removed.
    """
    if value is None:
        return False
    if value == broken or "," not in value:
        return True
    return value.endswith(f",{owner.namespace},{owner.name}")


def contention(node: str, timeout: timedelta) -> str:
    """Return what HAMi answers a pod that has to wait."""
    return f"node {node} has been locked within {go_duration(timeout)}: node lock contention"


def go_duration(duration: timedelta) -> str:
    """Return *duration* as Go writes it, such as `5m0s`, `1.5s` or `100ms`."""
    micros = duration // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if micros == 0:
        return "0s"
    if micros < 1_000:
        return f"{sign}{micros}µs"
    if micros < 1_000_000:
        return f"{sign}{_decimal(micros, 1_000)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def rfc3339(at: datetime) -> str:
    """Return *at*, which has a zone, in UTC and whole seconds."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Return a time of RFC 3339, as Go reads it; raises `UnreadableError`."""
    if not _RFC3339.fullmatch(text):
        raise unreadable("time", text, "is not of the form 2006-01-02T15:04:05Z")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise unreadable("time", text, "does not exist") from error


def _of_others(lock: NodeLock, owner: Owner, text: str, *, is_held: bool | None) -> Decision:
    if lock.owner == owner:
        return Decision(verdict=Verdict.OURS)
    if lock.owner is None or is_held:
        return Decision(verdict=Verdict.WAIT, owner=lock.owner, text=text)
    verdict = Verdict.LOOK if is_held is None else Verdict.BREAK
    return Decision(verdict=verdict, owner=lock.owner)


def _read(text: str) -> NodeLock:
    parts = text.split(",")
    if len(parts) not in {1, _PARTS}:
        message = (
            f"malformed lock annotation: expected {_PARTS} parts,"
            f" got {len(parts)} from {shown(text)}"
        )
        raise UnreadableError(message)
    at = parse_time(parts[0])
    return NodeLock(at=at, owner=Owner(*parts[1:]) if all(parts[1:]) and parts[1:] else None)


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
