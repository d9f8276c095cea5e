"""The locks of nodes: bindings to one node wait for one another instead of failing.

Bindings of a node stand in line in the order in which they came. The first of them takes the lock
as soon as the watch shows that the device plugin has removed it, by one PATCH that holds for the
version of the node that was looked at; the next then waits for that one's. Locks of others are
respected (see `extender.lockowners` for when not). kube-scheduler binds in the background, so
nobody else waits meanwhile.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from extender.calls import Calls
from extender.lockowners import Gone, Judge
from extender.metrics import Metrics
from extender.parts import NodeFacts, State
from hami import cambriconlock, nodelock
from hami.nodelock import Decision, NodeLock, Owner, Verdict
from hami.vendors import Lock
from kube.errors import ConflictError, KubeError, NotFoundError

log = structlog.get_logger(__name__)

_LOOK_S: Final = 1.0
"""How often the owner of a lock is looked at while one waits; removals are seen at once."""
_CONFLICTS: Final = 8
_PAUSE_S: Final = 0.05
_RELEASES: Final = 5


class LockError(Exception):
    """A lock cannot be had; the text is for the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Who wants which locks of which node."""

    node: str
    uid: str
    owner: Owner
    kinds: frozenset[Lock]


@dataclass(slots=True)
class _Line:
    """Those who wait for one node."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    newest: NodeFacts | None = None
    """Newer than what the watch showed when it was at *shown*."""
    shown: str = ""
    taken: dict[Lock, str] = field(default_factory=dict)
    """What was set here last, and for whom."""
    taken_by: str = ""


class NodeLocks:
    """All of them; used in the loop."""

    def __init__(
        self,
        calls: Calls,
        state: State,
        metrics: Metrics,
        *,
        expire_s: float,
        bind_max_s: float,
    ) -> None:
        """Take the age at which a lock is void, and how long a binding may take."""
        self._calls, self._state, self._metrics = calls, state, metrics
        self._expire, self._bind_max = timedelta(seconds=expire_s), timedelta(seconds=bind_max_s)
        self._lines: dict[str, _Line] = {}
        state.on_node(self._node_changed)

    async def acquire(
        self, wanted: Wanted, *, wait_s: float, wanted_still: Callable[[], str | None]
    ) -> Mapping[Lock, str]:
        """Wait for a turn and take the locks; return what was written.

        *wanted_still* says why there is no use in waiting any more. Raises `LockError`.
        """
        line = self._lines.setdefault(wanted.node, _Line())
        until_s = asyncio.get_running_loop().time() + wait_s
        line.waiting += 1
        self._metrics.lock_waiting.inc()
        try:
            with self._metrics.lock_wait_seconds.time():
                return await self._in_turn(line, wanted, until_s, wanted_still)
        finally:
            self._metrics.lock_waiting.dec()
            line.waiting -= 1
            self._tidy(wanted.node)

    async def release(self, wanted: Wanted, written: Mapping[Lock, str]) -> None:
        """Take back locks that read as they were *written*, after a binding that failed."""
        line = self._lines.get(wanted.node)
        for attempt in range(_RELEASES):
            try:
                facts = await self._calls.node(wanted.node)
                ours = [each for each, value in written.items() if facts.locks.get(each) == value]
                if ours:
                    facts = await self._calls.annotate_node(
                        wanted.node, dict.fromkeys(ours), facts.resource_version
                    )
            except NotFoundError:
                return
            except KubeError as error:
                log.warning("node lock not released", node=wanted.node, error=str(error))
                await asyncio.sleep(_PAUSE_S * 2**attempt)
            else:
                if line is not None:
                    line.taken, line.taken_by = {}, ""
                    self._note(line, wanted.node, facts)
                return

    async def _in_turn(
        self,
        line: _Line,
        wanted: Wanted,
        until_s: float,
        wanted_still: Callable[[], str | None],
    ) -> Mapping[Lock, str]:
        if line.turn.locked() and asyncio.get_running_loop().time() >= until_s:
            raise self._contention(wanted)
        try:
            async with asyncio.timeout_at(until_s):
                await line.turn.acquire()
        except TimeoutError:
            raise self._contention(wanted) from None
        try:
            return await self._take(line, wanted, until_s, wanted_still)
        finally:
            line.turn.release()

    async def _take(
        self,
        line: _Line,
        wanted: Wanted,
        until_s: float,
        wanted_still: Callable[[], str | None],
    ) -> Mapping[Lock, str]:
        conflicts = 0
        while True:
            if (reason := wanted_still()) is not None:
                raise LockError(reason)
            line.changed.clear()
            facts = self._facts(line, wanted.node)
            decisions = {
                each: await self._decide(line, wanted, each, facts) for each in wanted.kinds
            }
            if facts.resource_version != self._facts(line, wanted.node).resource_version:
                continue
            if waits := [each for each in decisions.values() if each.verdict is Verdict.WAIT]:
                await _wait(line, waits[0], until_s)
                continue
            values = {
                kind: facts.locks[kind]
                if decision.verdict is Verdict.OURS
                else _value(kind, wanted.owner)
                for kind, decision in decisions.items()
            }
            try:
                return await self._write(line, wanted, facts, values)
            except ConflictError as error:
                conflicts += 1
                if conflicts > _CONFLICTS:
                    message = f"node {wanted.node} changes too often to be locked"
                    raise LockError(message) from error
                await asyncio.sleep(_PAUSE_S * (conflicts - 1))
                await self._refresh(line, wanted.node)

    async def _write(
        self, line: _Line, wanted: Wanted, facts: NodeFacts, values: Mapping[Lock, str]
    ) -> Mapping[Lock, str]:
        if values.items() <= facts.locks.items():
            line.taken, line.taken_by = dict(values), wanted.uid
            return values
        try:
            new = await self._calls.annotate_node(wanted.node, values, facts.resource_version)
        except ConflictError:
            raise
        except KubeError as error:
            # It may be written all the same.
            new = await self._refresh(line, wanted.node)
            if not values.items() <= new.locks.items():
                message = f"node {wanted.node} cannot be locked: {error}"
                raise LockError(message) from error
        self._note(line, wanted.node, new)
        line.taken, line.taken_by = dict(values), wanted.uid
        return values

    async def _decide(self, line: _Line, wanted: Wanted, kind: Lock, facts: NodeFacts) -> Decision:
        now, value = datetime.now(UTC), facts.locks.get(kind) or None
        if kind is Lock.CAMBRICON:
            if value is not None and line.taken.get(kind) == value and line.taken_by == wanted.uid:
                return Decision(verdict=Verdict.OURS)
            return _readable(cambriconlock.decide(value, node=wanted.node, now=now))
        decision = nodelock.decide(
            value, owner=wanted.owner, node=wanted.node, now=now, timeout=self._expire
        )
        gone: Gone | None = None
        if decision.verdict is Verdict.OURS and (line.taken.get(kind), line.taken_by) != (
            value,
            wanted.uid,
        ):
            # An earlier pod of this name, or an earlier run of this program: begin its time anew.
            return Decision(verdict=Verdict.BREAK)
        if decision.verdict is Verdict.BREAK:
            gone = Gone.EXPIRED
        elif decision.verdict is Verdict.LOOK and value is not None:
            gone = await self._gone(line, wanted.node, value, decision.owner)
            decision = nodelock.decide(
                value,
                owner=wanted.owner,
                node=wanted.node,
                now=now,
                timeout=self._expire,
                is_held_by_a_pod=gone is None,
            )
        if gone is not None:
            log.info("node lock broken", node=wanted.node, lock=value, reason=gone.value)
            self._metrics.locks_broken.labels(gone.value).inc()
        return _readable(decision)

    async def _gone(self, line: _Line, node: str, value: str, owner: Owner | None) -> Gone | None:
        lock = nodelock.parse(value)
        if owner is None or not isinstance(lock, NodeLock):
            return None
        pod = self._state.pod(owner.namespace, owner.name)
        if pod is None:
            try:
                pod = await self._calls.pod(owner.namespace, owner.name)
            except NotFoundError:
                return Gone.MISSING
            except KubeError as error:
                message = f"the owner of the lock of node {node} cannot be looked at: {error}"
                raise LockError(message) from error
        taken_by = line.taken_by if line.taken.get(Lock.SHARED) == value else None
        judge = Judge(node=node, bind_max=self._bind_max)
        return judge.gone(lock, pod, now=datetime.now(UTC), taken_by=taken_by)

    def _facts(self, line: _Line, node: str) -> NodeFacts:
        shown = self._state.node(node)
        if shown is None:
            message = f'node "{node}" not found'
            raise LockError(message)
        if line.newest is not None and line.shown == shown.resource_version:
            return line.newest
        line.newest = None
        return shown

    async def _refresh(self, line: _Line, node: str) -> NodeFacts:
        try:
            facts = await self._calls.node(node)
        except KubeError as error:
            message = f"node {node} cannot be read: {error}"
            raise LockError(message) from error
        self._note(line, node, facts)
        return facts

    def _note(self, line: _Line, node: str, facts: NodeFacts) -> None:
        shown = self._state.node(node)
        line.shown = "" if shown is None else shown.resource_version
        # Where the watch was faster there is nothing newer.
        line.newest = None if line.shown == facts.resource_version else facts

    def _node_changed(self, name: str) -> None:
        if (line := self._lines.get(name)) is not None:
            line.changed.set()
            self._tidy(name)

    def _tidy(self, name: str) -> None:
        line = self._lines.get(name)
        if line is None or line.waiting:
            return
        node = self._state.node(name)
        if node is not None and line.shown != node.resource_version:
            line.newest = None
        if node is None or (line.newest is None and not any(node.locks.values())):
            del self._lines[name]

    def _contention(self, wanted: Wanted) -> LockError:
        return LockError(nodelock.contention(wanted.node, self._expire))


def _value(kind: Lock, owner: Owner) -> str:
    now = datetime.now(UTC)
    if kind is Lock.CAMBRICON:
        return cambriconlock.value(now)
    return nodelock.encode(NodeLock(at=now, owner=owner))


def _readable(decision: Decision) -> Decision:
    if decision.verdict is Verdict.MALFORMED:
        raise LockError(decision.text)
    return decision


async def _wait(line: _Line, decision: Decision, until_s: float) -> None:
    now_s = asyncio.get_running_loop().time()
    if now_s >= until_s:
        raise LockError(decision.text)
    try:
        async with asyncio.timeout_at(min(until_s, now_s + _LOOK_S)):
            await line.changed.wait()
    except TimeoutError:
        if asyncio.get_running_loop().time() >= until_s:
            raise LockError(decision.text) from None
