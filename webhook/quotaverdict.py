"""Whether a cost fits into bounds, and the sentences for when it does not."""

from collections.abc import Iterable
from typing import Final

from gpu.refusal import Refusal
from hami.quota import Cost
from webhook.quotas import Bound

EXCEEDED: Final = "QuotaExceeded"
UNAVAILABLE: Final = "QuotaLeaderUnavailable"
SETTLING: Final = "QuotaLeaderSettling"
BEHIND: Final = "QuotaViewBehind"
PASSING: Final = frozenset({UNAVAILABLE, SETTLING, BEHIND})
"""Codes of refusals that say nothing about the object: the same request may pass a little later."""


def reasons(
    bounds: Iterable[Bound], *, namespace: str, asked: Cost, used: Cost, under_way: Cost
) -> tuple[Refusal, ...]:
    """Return what speaks against *asked* beside what is *used* and *under_way*."""
    found = []
    for bound in bounds:
        if asked.asks(bound.resource):
            refusal = _reason(bound, namespace, asked, used, under_way)
            if refusal is not None:
                found.append(refusal)
    return tuple(found)


def is_bound(bounds: Iterable[Bound], asked: Cost) -> bool:
    """Tell whether any of *bounds* is about what is *asked*."""
    return any(asked.asks(bound.resource) for bound in bounds)


def _reason(
    bound: Bound, namespace: str, asked: Cost, used: Cost, under_way: Cost
) -> Refusal | None:
    name = bound.resource
    if bound.limit is None:
        return _refusal(
            "QuotaUnreadable",
            namespace,
            bound,
            f"says `{bound.written}`, which is no whole number",
            remedy="an administrator must correct it",
        )
    if name in asked.unknown and bound.limit > 0:
        return _refusal(
            "QuotaNeedsSize", namespace, bound, f"cannot count it: {asked.unknown[name]}"
        )
    if name in used.unknown:
        why = f"cannot count what is there already: {used.unknown[name]}"
        return _refusal("QuotaUsageUnknown", namespace, bound, why)
    moving = under_way.amounts.get(name, 0)
    taken = used.amounts.get(name, 0) + moving
    amount = asked.amounts.get(name, 0)
    if bound.limit > 0 and (amount == 0 or taken + amount <= bound.limit):
        return None
    shown = str(amount) if name in asked.amounts else "an unknown size"
    remedy = "ask for less, or wait until others have ended"
    if moving:
        remedy = f"{moving} of the used are of requests under way: {remedy}"
    return _refusal(
        EXCEEDED,
        namespace,
        bound,
        f"used {taken}, asked {shown}, limit {bound.limit}",
        remedy=remedy if bound.limit else "this namespace may not use it",
    )


def no_leader(namespace: str, why: str) -> Refusal:
    """Return the refusal for when nobody can be asked who decides."""
    return Refusal(
        code=UNAVAILABLE,
        field="namespace",
        value=namespace,
        limit=f"its GPU quota is kept by one replica of the webhook, and {why}",
        remedy="try again",
    )


def settling(namespace: str, left_s: float) -> Refusal:
    """Return the refusal of a replica that has just begun to lead."""
    return Refusal(
        code=SETTLING,
        field="namespace",
        value=namespace,
        limit="its GPU quota has a new keeper, which waits for what the one before it admitted",
        remedy=f"try again in {max(1, round(left_s))} s",
    )


def behind(namespace: str) -> Refusal:
    """Return the refusal of a replica that does not yet see what is stored."""
    return Refusal(
        code=BEHIND,
        field="namespace",
        value=namespace,
        limit="the keeper of its GPU quota does not yet see all that the API server has stored",
        remedy="try again",
    )


def _refusal(code: str, namespace: str, bound: Bound, said: str, *, remedy: str = "") -> Refusal:
    return Refusal(
        code=code,
        field="namespace",
        value=namespace,
        limit=f"quota {bound.quota}: {bound.key} {said}",
        remedy=remedy,
    )
