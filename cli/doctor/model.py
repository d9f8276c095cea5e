"""What a check is, and what it finds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

Place_contra = TypeVar("Place_contra", contravariant=True)

NOTHING_FAILED: Final = 0
WARNED: Final = 1
FAILED: Final = 2
NOT_ASKED: Final = 3


class Status(StrEnum):
    """How it stands."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It could not be asked."""
    SKIPPED = "skipped"
    """There is nothing to ask here."""


class Half(StrEnum):
    """Where a check looks."""

    CLUSTER = "cluster"
    NODE = "node"
    PREFLIGHT = "preflight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one check found."""

    status: Status
    seen: str
    """One sentence or phrase."""
    remedy: str = ""
    """One sentence; empty where nothing is to be done."""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A verdict and which check it is of."""

    id: str
    half: Half
    verdict: Verdict
    about: str = ""
    """The node, where a check looks at several one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[Place_contra]):
    """One question to a place."""

    id: str
    """Stable: documents, scripts and alerts name it."""
    run: Callable[[Place_contra], Verdict]


def ok(seen: str, *details: str) -> Verdict:
    """Say that something is as it should be."""
    return Verdict(status=Status.OK, seen=seen, details=details)


def warning(seen: str, remedy: str, *details: str) -> Verdict:
    """Say that something works worse than it could."""
    return Verdict(status=Status.WARNING, seen=seen, remedy=remedy, details=details)


def failed(seen: str, remedy: str, *details: str) -> Verdict:
    """Say that something does not work."""
    return Verdict(status=Status.FAILED, seen=seen, remedy=remedy, details=details)


def unknown(seen: str, remedy: str = "", *details: str) -> Verdict:
    """Say why something could not be asked."""
    return Verdict(status=Status.UNKNOWN, seen=seen, remedy=remedy, details=details)


def skipped(seen: str) -> Verdict:
    """Say why there is nothing to ask."""
    return Verdict(status=Status.SKIPPED, seen=seen)


def exit_status(findings: Sequence[Finding], *, strict: bool) -> int:
    """Return the exit status for *findings*."""
    found = {finding.verdict.status for finding in findings}
    if Status.FAILED in found:
        return FAILED
    if not found & {Status.OK, Status.WARNING}:
        return NOT_ASKED
    return WARNED if strict and Status.WARNING in found else NOTHING_FAILED


def listed(names: Sequence[str], *, most: int = 3) -> str:
    """Name the first of *names* and say how many more there are."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) <= most:
        return ", ".join(distinct)
    return f"{', '.join(distinct[:most])} and {len(distinct) - most} more"


def counted(number: int, what: str) -> str:
    """Return `1 node` or `2 nodes`."""
    return f"{number} {what}" + ("" if number == 1 else "s")
