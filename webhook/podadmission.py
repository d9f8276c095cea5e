"""The decision about a new pod: in which order things are looked at, and what comes of them.

What only schedulers may write is looked at first, whoever schedules the pod, because an allocation
that was forged is believed by all of them. Quotas are asked last, about pods that nothing else
speaks against.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from gpu.refusal import Refusal
from hami.requests import Valid
from webhook.access import Access
from webhook.claims import Translation
from webhook.guard import guard
from webhook.podlooking import NOT_READY, Knowledge, PodLooking
from webhook.podsettings import PodRules
from webhook.quotaverdict import PASSING
from webhook.review import ALLOWED, CANNOT_HELP, Review, UserInfo, Verdict, refused

__all__ = ["Knowledge", "PodAdmission", "PodQuota", "PodRules"]


class PodQuota(Protocol):
    """What is asked of the quotas."""

    async def check_pod(
        self, review: Review, valid: Valid, translation: Translation | None
    ) -> tuple[Refusal, ...]:
        """Return what speaks against the pod."""


class PodAdmission:
    """Decides about pods that are created."""

    def __init__(
        self,
        rules: PodRules,
        view: Knowledge,
        *,
        claims_serve: Callable[[], bool | None],
        may_write_nodes: Callable[[UserInfo], Awaitable[Access]],
        quota: PodQuota | None,
    ) -> None:
        """Prepare; *claims_serve* tells whether requests become claims, `None` if not known."""
        self._looking = PodLooking(rules, view, claims_serve)
        self._may_write_nodes = may_write_nodes
        self._quota = quota
        owned = (vendor.owned_keys for vendor in rules.config.vendors)
        self._owned_keys = frozenset[str]().union(*owned)

    async def decide(self, review: Review) -> Verdict:
        """Return what becomes of the pod in *review*."""
        pod = review.item or {}
        forged = await guard(review, self._may_write_nodes, more=self._owned_keys)
        outcome = self._looking.look_at(pod, review.namespace)
        reasons = (*forged, *outcome.reasons)
        warnings = tuple(str(each) for each in outcome.warnings)
        if reasons:
            return _refused(reasons, warnings)
        if outcome.valid is not None and self._quota is not None:
            reasons = await self._quota.check_pod(review, outcome.valid, outcome.translation)
            if reasons:
                return _refused(reasons, warnings)
        return replace(ALLOWED, patch=outcome.patch, warnings=warnings)


def _refused(reasons: tuple[Refusal, ...], warnings: tuple[str, ...]) -> Verdict:
    ours = any(each.code == NOT_READY or each.code in PASSING for each in reasons)
    return refused(reasons, code=CANNOT_HELP if ours else 403, warnings=warnings)
