"""`/filter` and `/prioritize`: which node a pod goes to.

kube-scheduler waits for the answer in its one scheduling cycle, so everything between body and
answer is synchronous and made of memory alone; nothing is written to the API server. All errors
are in band, with status 200, as kube-scheduler reports those to the user.
"""

import time
from collections.abc import Collection, Mapping
from typing import Final

import structlog

from extender import wire
from extender.gate import Gate
from extender.metrics import Metrics, Phase, Result
from extender.parts import Answer, Chooser, Chosen, Failed, NotAsked, Unfit
from extender.wire import FilterArgs, Names, WireError
from hami.containers import JsonObject

log = structlog.get_logger(__name__)

PATH: Final = "/filter"
PRIORITIZE_PATHS: Final = ("/prioritize", "/score")
_POD_MAX: Final = 56
_NODE_MAX: Final = 40
_REASONS_MAX: Final = 48
"""What is shown of these, so that a line of the log has at most 300 bytes."""
_RESULTS: Final[Mapping[type[Answer], Result]] = {
    Chosen: Result.CHOSEN,
    Unfit: Result.UNFIT,
    NotAsked: Result.NOT_ASKED,
    Failed: Result.FAILED,
}
_NO_POD: Final = "extender args missing pod"
"""HAMi's words."""


class Filtering:
    """Answers kube-scheduler's question."""

    def __init__(
        self,
        chooser: Chooser,
        gate: Gate,
        metrics: Metrics,
        *,
        wait_ready_s: float,
        busy: Collection[str] = (),
    ) -> None:
        """Decide nothing about pods that are *busy*, by UID: they may be bound already."""
        self._chooser, self._gate, self._wait_ready_s = chooser, gate, wait_ready_s
        self._busy = busy
        self._route = metrics.route(PATH)
        self._scored = metrics.route(PRIORITIZE_PATHS[0])
        self._allocations = metrics.allocations
        self._failures = metrics.allocation_failures

    def is_ready(self) -> bool:
        """Tell whether nobody would have to wait for an answer."""
        return self._gate.problem() is None

    def filter_now(self, body: bytes) -> bytes:
        """Return the answer to a `/filter`; reserves where it names a node."""
        return self._filter(body, time.perf_counter(), self._gate.problem())

    async def filter(self, body: bytes) -> bytes:
        """Return the same, once decisions are sound."""
        if not self.is_ready():
            await self._gate.wait(self._wait_ready_s)
        return self.filter_now(body)

    async def prioritize(self, body: bytes) -> tuple[int, bytes]:
        """Return status and answer to a `/prioritize`, which has no place for an error."""
        problem = await self._gate.wait(self._wait_ready_s)
        with self._scored.measure() as outcome:
            if problem is not None:
                outcome.result = Result.REFUSED
                return 503, problem.encode()
            try:
                args, pod = _question(body)
                names = args.names or Names.of([each.name for each in _nodes(args)])
                scores = self._chooser.scores(pod, names)
            except WireError as error:
                outcome.result = Result.UNREADABLE
                return 400, str(error).encode()
            if isinstance(scores, Failed):
                return 500, scores.reason.encode()
            outcome.result = Result.SCORED
            return 200, wire.host_priorities(scores)

    def _filter(self, body: bytes, began: float, problem: str | None) -> bytes:
        try:
            args, pod = _question(body)
        except WireError as error:
            self._route.note(Result.UNREADABLE, time.perf_counter() - began)
            log.warning("filter not read", reason=str(error)[:_REASONS_MAX])
            return wire.filter_result(error=str(error))
        try:
            if args.nodes is not None:
                answer, text = self._simulate(args, pod)
            else:
                answer = Failed(problem) if problem else self._choose(args, pod)
                text = _written(args, answer)
        except WireError as error:
            answer, text = Failed(str(error)), wire.filter_result(error=str(error))
        except Exception as error:
            # One impossible pod must not end scheduling for all others.
            log.exception("filter failed", pod=_name(pod))
            answer = Failed(f"{type(error).__name__} while a node was chosen; the log tells more")
            text = wire.filter_result(error=answer.reason)
        seconds = time.perf_counter() - began
        result = _RESULTS[type(answer)]
        self._route.note(result, seconds)
        if args.nodes is None:
            self._count(answer)
        log.info("pod filtered", pod=_name(pod), result=result, **_facts(answer, seconds))
        return text

    def _choose(self, args: FilterArgs, pod: JsonObject) -> Answer:
        names = args.names or Names(b"[]")
        if self._busy and _uid(pod) in self._busy:
            return Failed("the pod is being bound, and nobody knows yet whether it is")
        answer = self._chooser.choose(pod, names)
        if isinstance(answer, Chosen) and answer.node not in names:
            log.error("node chosen that was not asked about", node=answer.node)
            return Failed(f"{answer.node} was not asked about")
        return answer

    def _simulate(self, args: FilterArgs, pod: JsonObject) -> tuple[Answer, bytes]:
        """Choose among the nodes that were sent; the answer holds the chosen one as it came."""
        sent = _nodes(args)
        answer = self._chooser.simulate(pod, sent)
        if not isinstance(answer, Chosen):
            return answer, _written(args, answer)
        chosen = [each.raw for each in sent if each.name == answer.node]
        return answer, wire.filter_result(nodes=wire.node_list(chosen), failed=answer.failed)

    def _count(self, answer: Answer) -> None:
        if isinstance(answer, Chosen):
            for word in answer.words:
                self._allocations.labels(Phase.FILTER.value, word).inc()
        elif isinstance(answer, Unfit):
            for token, count in answer.reasons.items():
                self._failures.labels(Phase.FILTER.value, "", token).inc(count)


def _question(body: bytes) -> tuple[FilterArgs, JsonObject]:
    args = wire.read_filter(body)
    if args.pod is None:
        raise WireError(_NO_POD)
    return args, args.pod


def _nodes(args: FilterArgs) -> tuple[wire.SentNode, ...]:
    return () if args.nodes is None else wire.read_nodes(args.nodes)


def _written(args: FilterArgs, answer: Answer) -> bytes:
    match answer:
        case Failed():
            return wire.filter_result(error=answer.reason)
        case NotAsked():
            names = None if args.names is None else args.names.raw
            return wire.filter_result(names=names, nodes=args.nodes)
        case Unfit():
            return wire.filter_result(failed=answer.failed, unresolvable=answer.unresolvable)
        case Chosen():
            return wire.filter_result(names=wire.name_list(answer.node))


def _facts(answer: Answer, seconds: float) -> dict[str, object]:
    """Return what one line of the log says of a decision; it is for people, so it stays short."""
    ms = round(seconds * 1000, 2)
    match answer:
        case Chosen():
            return {"node": answer.node[:_NODE_MAX], "score": round(answer.score, 2), "ms": ms}
        case Unfit():
            ranked = sorted(answer.reasons.items(), key=lambda each: (-each[1], each[0]))
            reasons = ", ".join(f"{count} {token}" for token, count in ranked)
            nodes = len(answer.failed) + len(answer.unresolvable)
            return {"nodes": nodes, "reasons": reasons[:_REASONS_MAX], "ms": ms}
        case Failed():
            return {"reason": answer.reason[:_REASONS_MAX], "ms": ms}
        case NotAsked():
            return {"ms": ms}


def _uid(pod: JsonObject) -> object:
    metadata = pod.get("metadata")
    return metadata.get("uid") if isinstance(metadata, dict) else None


def _name(pod: JsonObject) -> str:
    metadata = pod.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"[:_POD_MAX]
