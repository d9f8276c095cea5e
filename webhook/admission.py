"""Which question goes to which decision.

What is not listed here is allowed: the webhook configurations decide what is asked, and a rule
too many in them must not block anything.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

from kube.draconversion import GROUP, V1, to_v1
from kube.objects import JsonObject
from webhook.access import Access
from webhook.claimadmission import ClaimAdmission
from webhook.guard import guard
from webhook.podadmission import PodAdmission
from webhook.review import ALLOWED, Review, UserInfo, Verdict, refused


class Admission:
    """Answers what the API server asks under its two paths."""

    def __init__(
        self,
        pods: PodAdmission,
        claims: ClaimAdmission,
        *,
        may_write_nodes: Callable[[UserInfo], Awaitable[Access]],
        more_owned: frozenset[str] = frozenset(),
        exempt_namespaces: Collection[str] = (),
    ) -> None:
        """Prepare; *more_owned* are annotations of schedulers beside the usual ones."""
        self._pods = pods
        self._claims = claims
        self._may_write_nodes = may_write_nodes
        self._more_owned = more_owned
        self._exempt = frozenset(exempt_namespaces)

    async def mutate(self, review: Review) -> Verdict:
        """Decide about a new pod, and change it."""
        if review.namespace in self._exempt or _asked(review) != ("", "pods", "", "CREATE"):
            return ALLOWED
        return await self._pods.decide(review)

    async def validate(self, review: Review) -> Verdict:
        """Decide about what is changed afterwards, and about claims and templates."""
        if review.namespace in self._exempt:
            return ALLOWED
        match _asked(review):
            case ("", "pods" | "bindings", _, _):
                reasons = await guard(review, self._may_write_nodes, more=self._more_owned)
                return refused(reasons) if reasons else ALLOWED
            case (group, "resourceclaims", "", "CREATE") if group == GROUP:
                return await self._claims.decide_claim(_as_v1(review))
            case (group, "resourceclaimtemplates", "", "CREATE" | "UPDATE") if group == GROUP:
                return await self._claims.decide_template(_as_v1(review))
        return ALLOWED


def _as_v1(review: Review) -> Review:
    """Return *review* with its objects as `v1` has them."""
    item, old = (_lifted(each, review.resource) for each in (review.item, review.old_item))
    return replace(review, item=item, old_item=old)


def _lifted(item: JsonObject | None, plural: str) -> JsonObject | None:
    version = str((item or {}).get("apiVersion", "")).removeprefix(f"{GROUP}/")
    return item if item is None or version in {"", V1} else to_v1(item, plural, version)


def _asked(review: Review) -> tuple[str, str, str, str]:
    return review.group, review.resource, review.subresource, review.operation
