"""The locks of nodes: bindings to one node wait for one another instead of failing.

Bindings of a node stand in line in the order in which they came. The first of them takes the lock
as soon as the watch shows that the device plugin has removed it, by one PATCH that holds for the
version of the node that was looked at; the next then waits for that one's. Locks of others are
respected (see `extender.lockowners` for when not). kube-scheduler binds in the background, so
nobody else waits meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from extender.calls import Calls
from extender.lockdecisions import Decider, LockError, LockTimes, Taken, Wanted
from extender.metrics import Metrics
from extender.parts import NodeFacts, State
from hami import cambriconlock, nodelock
from hami.nodelock import Decision, NodeLock, Owner, Verdict
from hami.vendors import Lock
from kube.errors import ConflictError, KubeError, NotFoundError

__all__ = ["LockError", "NodeLocks", "Wanted"]

log = structlog.get_logger(__name__)

_LOOK_S: Final = 1.0
"""How often the owner of a lock is looked at while one waits; removals are seen at once."""
_CONFLICTS: Final = 8
_PAUSE_S: Final = 0.05
_RELEASES: Final = 5
_GIVEN_UP: Final = 64
"""As many as are remembered; they end by themselves when their pod is seen to wait for long."""


@dataclass(slots=True)
class _Line:
    """Those who wait for one node."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0
    newest: NodeFacts | None = None
    """Newer than what the watch showed when it was at *shown*."""
    shown: str = ""
    taken: Taken = field(default_factory=Taken)


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
        busy: Collection[str] = (),
    ) -> None:
        """Take the age at which a lock is void, and how long a binding may take.

        The locks of pods that are *busy*, by UID, are kept: they may be bound already.
        """
        self._calls, self._state, self._metrics = calls, state, metrics
        self._expire = timedelta(seconds=expire_s)
        self._given_up = deque[tuple[str, str]](maxlen=_GIVEN_UP)
        """Nodes with values that may be written there still, or again, and hold for nobody."""
        self._decider = Decider(
            calls,
            state,
            metrics,
            times=LockTimes(expire=self._expire, bind_max=timedelta(seconds=bind_max_s)),
            busy=busy,
            given_up=self._given_up,
        )
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
                    line.taken = Taken()
                    self._note(line, wanted.node, facts)
                return
        self._give_up(wanted, written)

    def _give_up(self, wanted: Wanted, values: Mapping[Lock, str]) -> None:
        if value := values.get(Lock.SHARED):
            self._given_up.append((wanted.node, value))

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
                each: await self._decider.decide(each, wanted, facts, line.taken)
                for each in wanted.kinds
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
            return self._held(line, wanted, values)
        try:
            new = await self._calls.annotate_node(wanted.node, values, facts.resource_version)
        except ConflictError:
            raise
        except KubeError as error:
            # It may be written all the same; only a lock that names us tells.
            names_us = Lock.SHARED in values
            try:
                new = await self._refresh(line, wanted.node)
            except LockError:
                if names_us:
                    await self.release(wanted, values)
                self._give_up(wanted, values)
                raise
            if not names_us or not values.items() <= new.locks.items():
                self._give_up(wanted, values)
                message = f"node {wanted.node} cannot be locked: {error}"
                raise LockError(message) from error
        self._note(line, wanted.node, new)
        return self._held(line, wanted, values)

    def _held(self, line: _Line, wanted: Wanted, values: Mapping[Lock, str]) -> Mapping[Lock, str]:
        line.taken = Taken(values=values, uid=wanted.uid)
        if (value := (wanted.node, values.get(Lock.SHARED, ""))) in self._given_up:
            self._given_up.remove(value)
        return values

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
