"""Whether the GPU quotas of a namespace leave room for what is about to be created.

Pods are asked about when they are admitted, since a user wants to hear of it then, and each claim
again, since a claim is what books a device and anybody can write one. One replica alone decides,
the leader: two that each count for themselves would give the last room twice. The others send the
question on and refuse while nobody can be asked; controllers try again.

Where a namespace bounds no GPUs, or a dry run asks, nothing is sent and nothing is reserved.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from gpu.refusal import Refusal
from hami.quota import Cost, total
from hami.requests import NVIDIA, ContainerRequest, Valid
from kube.objects import JsonObject
from webhook import quotaverdict
from webhook.leaderforward import LeaderSilentError, is_forwarded
from webhook.ledger import Kind, Subject, identity
from webhook.ownclaims import owner_of
from webhook.quotabooks import Books, Question, QuotaView
from webhook.quotausage import Prices, entries_in, part_of
from webhook.review import Review
from webhook.server import MUTATE_PATH, VALIDATE_PATH

log = structlog.get_logger(__name__)

_ENTRIES: Final = "/spec/resourceClaims"
_LOOK_EVERY_S: Final = 0.25


class Leadership(Protocol):
    """What is asked of the election."""

    def leading_since(self) -> float | None: ...  # noqa: D102

    def leader_address(self) -> str | None: ...  # noqa: D102


class Translated(Protocol):
    """What is asked of a translation of limits into claims."""

    @property
    def patch(self) -> tuple[JsonObject, ...]: ...  # noqa: D102

    @property
    def templates(self) -> Mapping[str, JsonObject]: ...  # noqa: D102


Forward = Callable[[Review, str, str], Awaitable[tuple[Refusal, ...]]]
"""Asks the replica at an address under a path; raises `LeaderSilentError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One bound and how much of it is used, for metrics."""

    namespace: str
    quota: str
    key: str
    used: int
    limit: int | None


class QuotaCheck:
    """Answers questions; belongs to the loop that serves."""

    def __init__(
        self,
        *,
        view: QuotaView,
        prices: Prices,
        books: Books,
        leadership: Leadership,
        forward: Forward,
        on_leading: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; *on_leading* is called by `run` when this replica has begun to lead."""
        self._view = view
        self._prices = prices
        self._books = books
        self._leadership = leadership
        self._forward = forward
        self._on_leading = on_leading

    async def check_pod(
        self,
        review: Review,
        valid: Valid,
        translation: Translated | None,
        *,
        reserve: bool = True,
    ) -> tuple[Refusal, ...]:
        """Return what speaks against a pod that was read as *valid*, before it is changed.

        Without *reserve* it is asked here only, and must be asked by `check_stored_pod` later.
        """
        if not self._books.bounds(review.namespace):
            return ()
        pod = review.item or {}
        cost = self._cost_of_pod(pod, valid, translation)
        question = Question(
            namespace=review.namespace, subject=_subject(review, Kind.POD, pod), cost=cost
        )
        return await self._ask(review, MUTATE_PATH, question, reserve=reserve)

    async def check_stored_pod(self, review: Review) -> tuple[Refusal, ...]:
        """Return what speaks against a pod as it will be stored."""
        if not self._books.bounds(review.namespace):
            return ()
        pod = review.item or {}
        cost = self._prices.of_new_pod(pod, self._view.facts()).whole
        question = Question(
            namespace=review.namespace, subject=_subject(review, Kind.POD, pod), cost=cost
        )
        return await self._ask(review, VALIDATE_PATH, question, reserve=True)

    async def check_claim(self, review: Review) -> tuple[Refusal, ...]:
        """Return what speaks against a new ResourceClaim, whoever makes it."""
        claim = review.item or {}
        spec = claim.get("spec")
        facts, owner = self._view.facts(), owner_of(claim)
        question = Question(
            namespace=review.namespace,
            subject=_subject(review, Kind.CLAIM, claim),
            cost=self._prices.of_spec(spec if isinstance(spec, dict) else {}, facts),
            replaces=part_of(claim),
            owner=owner and (owner.uid, owner.name),
        )
        return await self._ask(review, VALIDATE_PATH, question, reserve=True)

    def figures(self, namespaces: Iterable[str]) -> Iterator[Figure]:
        """Yield each bound of *namespaces* with what is used of it."""
        for namespace in namespaces:
            bounds = self._books.bounds(namespace)
            used = self._books.used(namespace).amounts if bounds else {}
            for bound in bounds:
                yield Figure(
                    namespace=namespace,
                    quota=bound.quota,
                    key=bound.key,
                    used=used.get(bound.resource, 0),
                    limit=bound.limit,
                )

    async def run(self) -> None:
        """Compare reservations with the view for ever."""
        known_s: float | None = None
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                since_s = self._leadership.leading_since()
                if since_s is None:
                    self._books.resign()
                else:
                    self._books.look()
                if since_s not in {None, known_s}:
                    self._on_leading()
                known_s = since_s
            except Exception:
                log.exception("reservations not compared")

    async def _ask(
        self, review: Review, path: str, question: Question, *, reserve: bool
    ) -> tuple[Refusal, ...]:
        bounds = self._books.bounds(question.namespace)
        if not quotaverdict.is_bound(bounds, question.cost):
            return ()
        if review.dry_run or not reserve:
            return self._books.judge(question)
        since_s = self._leadership.leading_since()
        if since_s is None:
            self._books.resign()
            return await self._ask_leader(review, path)
        not_ready = await self._books.get_ready(question, since_s)
        if not_ready is not None:
            # What is known already may be reason enough, and is what the user can change.
            return self._books.judge(question) or (not_ready,)
        if self._leadership.leading_since() != since_s:
            return (quotaverdict.no_leader(question.namespace, "it has just been replaced"),)
        return self._books.take(question, since_s)

    async def _ask_leader(self, review: Review, path: str) -> tuple[Refusal, ...]:
        address = self._leadership.leader_address()
        if address is None:
            return (quotaverdict.no_leader(review.namespace, "there is none now"),)
        if is_forwarded(review):
            return (quotaverdict.no_leader(review.namespace, "it has just been replaced"),)
        try:
            return await self._forward(review, path, address)
        except LeaderSilentError as error:
            log.warning("leader not reached", address=address, error=str(error))
            return (quotaverdict.no_leader(review.namespace, "it does not answer"),)

    def _cost_of_pod(self, pod: JsonObject, valid: Valid, translation: Translated | None) -> Cost:
        facts = self._view.facts()
        before = self._prices.of_new_pod(pod, facts).parts.values()
        if translation is None:
            return self._prices.of_requests(valid.requests, facts) + total(before)
        others = self._prices.of_requests(map(_without_nvidia, valid.requests), facts)
        new = (
            self._prices.of_spec(translation.templates[template], facts)
            for template in _templates_added(translation)
        )
        return others + total((*before, *new))


def _without_nvidia(request: ContainerRequest) -> ContainerRequest:
    kept = tuple(device for device in request.devices if device.word != NVIDIA)
    return ContainerRequest(container=request.container, devices=kept)


def _templates_added(translation: Translated) -> Iterator[str]:
    """Yield the template of each claim that the patch adds to the pod."""
    for operation in translation.patch:
        value: Any = operation.get("value")
        if operation.get("path") == _ENTRIES and isinstance(value, list):
            entries = value
        elif str(operation.get("path")).startswith(f"{_ENTRIES}/"):
            entries = [value]
        else:
            continue
        for _, template in entries_in(entries):
            if template in translation.templates:
                yield template


def _subject(review: Review, kind: Kind, item: JsonObject) -> Subject:
    uid, name = identity(item)
    metadata: Any = item.get("metadata")
    generated = metadata.get("generateName") if isinstance(metadata, dict) else None
    return Subject(
        kind=kind,
        review_uid=review.uid,
        uid=uid,
        name=name or review.name,
        generate_name=generated if isinstance(generated, str) else "",
    )
