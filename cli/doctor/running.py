"""Runs checks one by one: what one of them cannot ask, or trips over, stops no other."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import structlog

from cli.doctor.model import Check, Finding, Half, Verdict, skipped, unknown
from kube.errors import (
    ConfigError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    NotServedError,
    UnauthorizedError,
)

log = structlog.get_logger(__name__)

Place = TypeVar("Place")


def run(checks: Sequence[Check[Place]], place: Place, half: Half) -> Iterator[Finding]:
    """Yield what each of *checks* finds at *place*."""
    for check in checks:
        yield Finding(id=check.id, half=half, verdict=_asked(check, place))


def all_unknown(checks: Sequence[Check[Place]], half: Half, verdict: Verdict) -> Iterator[Finding]:
    """Yield *verdict* for each of *checks*, because none of them can be asked."""
    for check in checks:
        yield Finding(id=check.id, half=half, verdict=verdict)


def _asked(check: Check[Place], place: Place) -> Verdict:
    try:
        return check.run(place)
    except KubeError as error:
        return from_error(error)
    except Exception as error:
        # An object that nobody foresaw; the other checks are still worth their answers.
        log.warning("check tripped", check=check.id, exc_info=True)
        return unknown(f"the check tripped over what it read: {type(error).__name__}: {error}")


def is_lack_of_rights(error: KubeError) -> bool:
    """Tell whether RBAC refused, and not somebody who looked at the object (apiserver: 403)."""
    if isinstance(error, ForbiddenError):
        return "cannot" in error.message and "resource" in error.message
    return isinstance(error, UnauthorizedError)


def from_error(error: KubeError) -> Verdict:
    """Say that something could not be asked because of *error*."""
    match error:
        case NotServedError():
            return skipped(str(error))
        case ForbiddenError():
            remedy = "run this as somebody who may read it, such as the cluster's administrator"
            return unknown(f"not allowed: {error.message}", remedy)
        case NotFoundError():
            return unknown(f"not there: {error.message}")
        case ConfigError():
            return unknown(str(error), "name a kubeconfig with --kubeconfig")
        case _:
            return unknown(str(error))
