"""What to do about the lock of a node that a binding wants: HAMi's rules, and who still counts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from extender.calls import Calls
from extender.lockowners import Gone, Judge
from extender.metrics import Metrics
from extender.parts import NodeFacts, State
from hami import cambriconlock, nodelock
from hami.nodelock import Decision, NodeLock, Owner, Verdict
from hami.vendors import Lock
from kube.errors import KubeError, NotFoundError

log = structlog.get_logger(__name__)


class LockError(Exception):
    """A lock cannot be had; the text is for the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Who wants which locks of which node."""

    node: str
    uid: str
    owner: Owner
    kinds: frozenset[Lock]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What was set here last, and for which pod; the locks themselves hold no UID."""

    values: Mapping[Lock, str] = field(default_factory=dict)
    uid: str = ""

    def by(self, kind: Lock, value: str) -> str | None:
        """Return the UID of the pod for which a lock of this *value* was set, if it was here."""
        return self.uid if self.values.get(kind) == value else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTimes:
    """When locks end."""

    expire: timedelta
    """At which age any is void."""
    bind_max: timedelta
    """At which age that of a pod that is bound to no node is."""


class Decider:
    """Decides by the node as it was last seen; raises `LockError` where nobody can."""

    def __init__(
        self,
        calls: Calls,
        state: State,
        metrics: Metrics,
        *,
        times: LockTimes,
        busy: Collection[str],
        given_up: Collection[tuple[str, str]],
    ) -> None:
        """Keep the locks of pods that are *busy*, by UID; *given up* ones hold nobody."""
        self._calls, self._state, self._metrics = calls, state, metrics
        self._times, self._busy, self._given_up = times, busy, given_up

    async def decide(self, kind: Lock, wanted: Wanted, facts: NodeFacts, taken: Taken) -> Decision:
        """Return `SET`, `OURS`, `BREAK` or `WAIT`."""
        value = facts.locks.get(kind) or None
        is_own = value is not None and taken.by(kind, value) == wanted.uid
        if kind is Lock.CAMBRICON:
            decision = cambriconlock.decide(value, node=wanted.node, now=datetime.now(UTC))
            return Decision(verdict=Verdict.OURS) if is_own else _readable(decision)
        decision = _readable(self._by_rules(wanted, value, is_held=None))
        if value is None:
            return decision
        if (wanted.node, value) in self._given_up:
            self._broken(wanted.node, value, Gone.GIVEN_UP)
            return Decision(verdict=Verdict.BREAK)
        if decision.verdict is Verdict.OURS and not is_own:
            # An earlier pod of this name, or an earlier run of this program: begin its time anew.
            return Decision(verdict=Verdict.BREAK)
        if decision.verdict is Verdict.BREAK:
            self._broken(wanted.node, value, Gone.EXPIRED)
        elif decision.verdict is Verdict.LOOK and decision.owner is not None:
            gone = await self._gone(wanted.node, value, decision.owner, taken)
            if gone is not None:
                self._broken(wanted.node, value, gone)
            decision = self._by_rules(wanted, value, is_held=gone is None)
        return decision

    def _by_rules(self, wanted: Wanted, value: str | None, *, is_held: bool | None) -> Decision:
        return nodelock.decide(
            value,
            owner=wanted.owner,
            node=wanted.node,
            now=datetime.now(UTC),
            timeout=self._times.expire,
            is_held_by_a_pod=is_held,
        )

    async def _gone(self, node: str, value: str, owner: Owner, taken: Taken) -> Gone | None:
        lock = nodelock.parse(value)
        if not isinstance(lock, NodeLock):
            return None
        judge = Judge(node=node, bind_max=self._times.bind_max)
        taken_by = taken.by(Lock.SHARED, value)
        pod = self._state.pod(owner.namespace, owner.name)
        if pod is not None:
            if pod.uid in self._busy:
                return None
            gone = judge.gone(lock, pod, now=datetime.now(UTC), taken_by=taken_by)
            if gone is not Gone.UNBOUND:
                return gone
            # The watch may be late, and nobody takes the lock of a pod that is about to start.
        try:
            pod = await self._calls.pod(owner.namespace, owner.name)
        except NotFoundError:
            return Gone.MISSING
        except KubeError as error:
            message = f"the owner of the lock of node {node} cannot be looked at: {error}"
            raise LockError(message) from error
        return judge.gone(lock, pod, now=datetime.now(UTC), taken_by=taken_by)

    def _broken(self, node: str, value: str, reason: Gone) -> None:
        log.info("node lock broken", node=node, lock=value, reason=reason.value)
        self._metrics.locks_broken.labels(reason.value).inc()


def _readable(decision: Decision) -> Decision:
    if decision.verdict is Verdict.MALFORMED:
        raise LockError(decision.text)
    return decision
