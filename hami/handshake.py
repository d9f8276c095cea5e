"""The node annotation by which HAMi's scheduler asks a device plugin whether it is alive.

The scheduler writes `Requesting_<time>`, a plugin overwrites it with `Reported <time>`. A question
that stands for 60 s, on a node that offers none of the vendor's devices any more, means that the
plugin is gone (HAMi v2.10: `CheckHealth` in `pkg/device/devices.go`, and NVIDIA's own in
`pkg/device/nvidia/device.go`).

The time of a question is local and names no zone, so all that write and read it must share one.
`zone` stands for it; without it the zone of this process counts. A time in another form is no time.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from hami.backends import Backend
from hami.requests import NVIDIA
from hami.vendor_rules.vendor import Register

PATIENCE: Final = timedelta(seconds=60)
_QUESTION: Final = "Requesting"
_TIME: Final = r"(\d{4})([-.])(\d\d)\2(\d\d) (\d\d:\d\d:\d\d)(?:[.,]\d+)?"
_OF_SCHEDULER: Final = re.compile(rf"{_TIME}()", re.ASCII)
_OF_PLUGIN: Final = re.compile(
    rf"{_TIME}(?: ([+-]\d{{4}})(?: [A-Za-z0-9+-]+)?(?: m=[+-][\d.]+)?)?", re.ASCII
)
"""As Go prints times: with a zone, its name and a monotonic clock."""


class Kind(StrEnum):
    """Who wrote a stamp, and what for."""

    ABSENT = ""
    REQUESTING = "Requesting"
    REPORTED = "Reported"
    DELETED = "Deleted"
    """By schedulers up to v2.9, for a node they took for dead."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """A value once read; one whose time cannot be read has none."""

    kind: Kind
    at: datetime | None = None
    is_dotted: bool = False
    """By schedulers up to v2.4.1: the later ones cannot read its time."""


@dataclass(frozen=True, slots=True)
class Health:
    """What HAMi concludes of a node, for one vendor."""

    healthy: bool
    needs_update: bool
    """Whether the node's devices are to be read anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaSeen:
    """What was last seen of NVIDIA on one node."""

    allocatable: int = 0
    register: str = ""


def read(value: str | None, *, zone: tzinfo | None = None) -> Stamp:
    """Return what *value* says; never raises."""
    if not value:
        return Stamp(kind=Kind.ABSENT)
    if _QUESTION in value:
        return _stamp(Kind.REQUESTING, value.partition("_")[2], zone)
    for kind in (Kind.REPORTED, Kind.DELETED):
        if value.startswith(kind):
            return _stamp(kind, value.removeprefix(kind).lstrip(" _"), zone)
    return Stamp(kind=Kind.OTHER)


def requesting(now: datetime, *, zone: tzinfo | None = None) -> str:
    """Return the question of *now*, which is a time with a zone."""
    return f"{_QUESTION}_{now.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def to_write(
    backend: Backend,
    value: str | None,
    now: datetime,
    *,
    is_registered: bool,
    zone: tzinfo | None = None,
) -> str | None:
    """Return what to write on a node whose annotation is *value*, or `None` to leave it.

    A question is asked only of plugins that answer it: not on nodes without the vendor's register,
    and of NVIDIA's only where an answer shows that it is one of v2.7 or older.
    """
    stamp = read(value, zone=zone)
    if not backend.handshake_key or not is_registered or stamp.kind is Kind.REQUESTING:
        return None
    if backend.word == NVIDIA and stamp.kind is not Kind.REPORTED:
        return None
    return requesting(now, zone=zone)


def health(
    value: str | None, now: datetime, allocatable: int, *, zone: tzinfo | None = None
) -> Health:
    """Return what HAMi concludes where *allocatable* devices are offered at *now*.

    Only an old question that can be read makes a node unhealthy, and only if it offers nothing.
    """
    stamp = read(value, zone=zone)
    if stamp.kind is not Kind.REQUESTING:
        return Health(healthy=True, needs_update=True)
    is_old = stamp.at is not None and not stamp.is_dotted and now - stamp.at >= PATIENCE
    return Health(healthy=not is_old or allocatable > 0, needs_update=False)


def nvidia_health(
    seen: NvidiaSeen, generic: Health, *, allocatable: int, register: str
) -> tuple[Health, NvidiaSeen]:
    """Return what HAMi concludes for NVIDIA, and what it has seen now.

    *generic* is what `health` says. Its plugins since v2.8 answer no question: their sign of life
    is the number of devices that they offer.
    """
    now = NvidiaSeen(allocatable=allocatable, register=register)
    if allocatable == 0:
        if seen.allocatable == 0:
            return generic, seen
        return replace(generic, healthy=False), now
    if seen.allocatable != allocatable:
        return Health(healthy=True, needs_update=True), now
    if seen.register != register:
        return replace(generic, needs_update=True), now
    return generic, seen


def other_health(
    backend: Backend, *, capacity: int | None, registered: int | None
) -> Health | None:
    """Return what HAMi concludes for a vendor without a handshake, `None` for one with it.

    *capacity* is the node's number of the vendor's resource, *registered* of devices that can be
    read of its register; `None` where there is none.
    """
    if backend.handshake_key:
        return None
    if backend.word == "AMD":
        is_offered = bool(capacity) or not backend.count_name
        return Health(healthy=is_offered, needs_update=is_offered)
    if backend.word in {"Metax-GPU", "GCU"}:
        return Health(healthy=bool(capacity), needs_update=True)
    if backend.register is Register.METAX:
        return Health(healthy=bool(registered), needs_update=True)
    return Health(healthy=True, needs_update=True)


def _stamp(kind: Kind, text: str, zone: tzinfo | None) -> Stamp:
    form = _OF_PLUGIN if kind is Kind.REPORTED else _OF_SCHEDULER
    found = form.fullmatch(text)
    if found is None:
        return Stamp(kind=kind)
    year, dots, month, day, clock, offset = found.groups()
    try:
        at = datetime.fromisoformat(f"{year}-{month}-{day}T{clock}{offset or ''}")
        if not offset:
            at = at.replace(tzinfo=zone) if zone else at.astimezone()
        at = at.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return Stamp(kind=kind)
    return Stamp(kind=kind, at=at, is_dotted=dots == ".")
