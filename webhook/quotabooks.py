"""The books of the one replica that decides: who has room in a namespace, and who gets it.

Between reading the books and writing into them nothing else runs: that stretch has no `await`, so
of fifty requests at once each finds what those before it took. Two things must be true before:

- Whatever another leader admitted is in the view. A request that it admitted may still be on its
  way for as long as the API server works on one (34 s; apiserver: `pkg/endpoints/handlers`), so a
  new leader waits that long and then compares a list that cannot be stale with its view.
- A reservation whose object was never seen is of a request that failed. The same wait and the
  same comparison prove it.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from gpu.refusal import Refusal
from hami.quota import Cost
from kube.errors import KubeError
from kube.objects import JsonObject
from webhook import quotaverdict
from webhook.facts import ClusterFacts
from webhook.ledger import Kind, Ledger, Part, Reservation, Subject, identity
from webhook.quotas import Bound, bounds_of
from webhook.quotausage import Prices, Usage

log = structlog.get_logger(__name__)


class QuotaView(Protocol):
    """What is read of the cluster; objects stay the same ones until they change."""

    def facts(self) -> ClusterFacts: ...  # noqa: D102

    def quotas(self, namespace: str) -> tuple[JsonObject, ...]: ...  # noqa: D102

    def pods(self, namespace: str) -> tuple[JsonObject, ...]: ...  # noqa: D102

    def claims(self, namespace: str) -> tuple[JsonObject, ...]: ...  # noqa: D102


class FreshLists(Protocol):
    """Lists from the API server, as of now and not of some cache; they raise `KubeError`."""

    async def pods(self, namespace: str) -> tuple[JsonObject, ...]: ...  # noqa: D102

    async def claims(self, namespace: str) -> tuple[JsonObject, ...]: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things take elsewhere."""

    request_s: float = 36.0
    """After this a request that was admitted has failed or is stored."""
    catch_up_s: float = 1.0
    """For how long one decision waits for the view."""
    look_every_s: float = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """May this object be created?"""

    namespace: str
    subject: Subject
    cost: Cost
    replaces: Part | None = None
    """The part of a pod that is counted until this claim exists."""
    owner: tuple[str, str] | None = None
    """UID and name of the pod that the claim is made for."""


@dataclass(slots=True)
class _Namespace:
    usage: Usage
    ledger: Ledger = field(default_factory=Ledger)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    proven: bool = False
    """Whether the view has all that earlier leaders admitted."""


class Books:
    """Usage and reservations by namespace; belongs to one event loop."""

    def __init__(  # noqa: PLR0913 - what to read, and how time passes
        self,
        view: QuotaView,
        prices: Prices,
        *,
        fresh: FreshLists,
        follows_pod: Callable[[JsonObject], bool] = lambda _pod: True,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Prepare; *follows_pod* tells whether the view shows such a pod."""
        self._view = view
        self._follows_pod = follows_pod
        self._prices = prices
        self._fresh = fresh
        self._timing = timing or Timing()
        self._clock = clock
        self._pause = pause
        self._since_s: float | None = None
        self._namespaces: dict[str, _Namespace] = {}
        self._shown: dict[str, Usage] = {}
        self._showing = threading.Lock()

    def bounds(self, namespace: str) -> tuple[Bound, ...]:
        """Return what holds in *namespace*."""
        return bounds_of(self._view.quotas(namespace), self._prices.names)

    def used(self, namespace: str) -> Cost:
        """Return what the objects of *namespace* cost, without those under way; in any thread."""
        with self._showing:
            usage = self._shown.setdefault(namespace, Usage(self._prices))
            return self._usage_of(namespace, usage, ())

    def judge(self, question: Question) -> tuple[Refusal, ...]:
        """Return what speaks against *question* as far as is known here; takes no room."""
        state = self._state(question.namespace)
        self._absorb(question.namespace, state)
        replaced = {*state.ledger.replaced()}
        if question.replaces is not None:
            replaced.add(question.replaces)
        return quotaverdict.reasons(
            self.bounds(question.namespace),
            namespace=question.namespace,
            asked=question.cost,
            used=self._usage_of(question.namespace, state.usage, replaced),
            under_way=state.ledger.held(besides=question.subject),
        )

    async def get_ready(self, question: Question, since_s: float) -> Refusal | None:
        """Wait shortly until room can be given; *since_s* is when this replica began to lead."""
        self._begin_term(since_s)
        left_s = since_s + self._timing.request_s - self._clock()
        if left_s > 0:
            return quotaverdict.settling(question.namespace, left_s)
        state = self._state(question.namespace)
        async with state.lock:
            if not state.proven:
                state.proven = await self._view_has_all(question.namespace)
                if not state.proven:
                    return quotaverdict.behind(question.namespace)
            listed_s = self._clock()
            if state.ledger.has_expired(listed_s) and await self._view_has_all(question.namespace):
                state.ledger.drop_expired(listed_s)
        await self._see_owner(question, state)
        return None

    def take(self, question: Question, since_s: float) -> tuple[Refusal, ...]:
        """Judge *question* and give it room; nothing runs in between."""
        if since_s != self._since_s:
            return (quotaverdict.no_leader(question.namespace, "the leader has changed"),)
        refusals = self.judge(question)
        if not refusals:
            reservation = Reservation(
                subject=question.subject,
                cost=question.cost,
                deadline_s=self._clock() + self._timing.request_s,
                replaces=question.replaces,
            )
            self._state(question.namespace).ledger.reserve(reservation)
        return refusals

    def resign(self) -> None:
        """Forget what was reserved: another one leads."""
        self._since_s = None
        self._namespaces.clear()

    def look(self) -> None:
        """Drop reservations of what the view shows, for objects that live shorter than a look."""
        for namespace, state in self._namespaces.items():
            if len(state.ledger):
                self._absorb(namespace, state)

    def _begin_term(self, since_s: float) -> None:
        if since_s != self._since_s:
            self._namespaces.clear()
            self._since_s = since_s

    def _state(self, namespace: str) -> _Namespace:
        state = self._namespaces.get(namespace)
        if state is None:
            state = self._namespaces[namespace] = _Namespace(Usage(self._prices))
        return state

    def _absorb(self, namespace: str, state: _Namespace) -> None:
        facts = self._view.facts()
        state.ledger.absorb(
            Kind.POD,
            self._view.pods(namespace),
            lambda pod: self._prices.of_new_pod(pod, facts).whole,
        )
        state.ledger.absorb(
            Kind.CLAIM,
            self._view.claims(namespace),
            lambda claim: self._prices.of_claim(claim, facts),
        )

    def _usage_of(
        self, namespace: str, usage: Usage, replaced: set[Part] | tuple[Part, ...]
    ) -> Cost:
        return usage.sum(
            pods=self._view.pods(namespace),
            claims=self._view.claims(namespace),
            facts=self._view.facts(),
            replaced=replaced,
        )

    async def _view_has_all(self, namespace: str) -> bool:
        """Tell whether the view shows all that is stored now, waiting a little for it."""
        until_s = self._clock() + self._timing.catch_up_s
        try:
            missing = set(self._uids(*await self._listed(namespace)))
            while missing := missing - set(self._seen(namespace)):
                if self._clock() >= until_s:
                    break
                await self._pause(self._timing.look_every_s)
            # What is still missing may have been deleted meanwhile.
            if missing:
                missing &= set(self._uids(*await self._listed(namespace)))
        except KubeError as error:
            log.warning("quota not compared", namespace=namespace, error=str(error))
            return False
        return not missing

    async def _listed(
        self, namespace: str
    ) -> tuple[tuple[JsonObject, ...], tuple[JsonObject, ...]]:
        return await self._fresh.pods(namespace), await self._fresh.claims(namespace)

    def _uids(self, pods: tuple[JsonObject, ...], claims: tuple[JsonObject, ...]) -> Iterator[str]:
        """Yield the UIDs of what costs something: the view may leave out the rest."""
        facts = self._view.facts()
        for pod in filter(self._follows_pod, pods):
            if self._prices.of_pod(pod, facts).whole:
                yield identity(pod)[0]
        yield from (identity(claim)[0] for claim in claims if self._prices.of_claim(claim, facts))

    def _seen(self, namespace: str) -> Iterator[str]:
        for item in (*self._view.pods(namespace), *self._view.claims(namespace)):
            yield identity(item)[0]

    async def _see_owner(self, question: Question, state: _Namespace) -> None:
        """Wait for the pod of a claim while it has room of its own, or both would count."""
        if question.owner is None:
            return
        until_s = self._clock() + self._timing.catch_up_s
        while state.ledger.awaits_pod(*question.owner) and self._clock() < until_s:
            await self._pause(self._timing.look_every_s)
            self._absorb(question.namespace, state)
