"""`/bind`: what was decided is written, all of it in one PATCH, and the pod is bound.

HAMi writes the devices when it filters; pods that are never bound carry them until then. Here the
reservation is in memory, and a binding without one is refused: kube-scheduler tries the pod again.
So is one for another pod of the name, a bound pod, another node than was chosen, or devices that
are not there any more; the API server checks the UID once more, as it stands in both requests.

Requests that get no answer: see `extender.binding_writing`. What fails is taken back: see
`extender.binding_rollback`.
"""

import time
from dataclasses import dataclass
from typing import Final

import structlog

from extender.binding_attempt import Attempt, attempt
from extender.binding_rollback import Rollback
from extender.binding_writing import NotOursError, Writer
from extender.calls import Calls
from extender.gate import Gate
from extender.locks import LockError, NodeLocks
from extender.metrics import Metrics, Outcome, Phase, Result
from extender.parts import PodFacts, Reservation, State
from extender.wire import BindingArgs
from kube.errors import KubeError
from kube.events import EventRecorder, EventType, Regarding

log = structlog.get_logger(__name__)

PATH: Final = "/bind"
_SPARE_S: Final = 30.0
"""How long a reservation is kept beyond the longest wait for a lock."""
_POD_MAX: Final = 56
_NODE_MAX: Final = 40
_REASON_MAX: Final = 60


class BindError(Exception):
    """The pod is not bound; *code* is for metrics, the text for kube-scheduler."""

    def __init__(self, code: str, text: str, *, ours: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.is_ours = ours
        """Whether something failed, and not whoever asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindPace:
    """The times of a binding."""

    lock_wait_s: float
    """How long one waits for the lock of a node."""
    settle_s: float = 1.0
    """The first pause before a pod is looked at again of which nobody knows whether it is bound."""


class Binder:
    """Binds pods; used in the loop."""

    def __init__(  # noqa: PLR0913 - all that a binding touches
        self,
        *,
        state: State,
        gate: Gate,
        calls: Calls,
        locks: NodeLocks | None,
        metrics: Metrics,
        events: EventRecorder | None,
        pace: BindPace,
        busy: set[str] | None = None,
        tells_success: bool = False,
    ) -> None:
        """Without *locks* no device plugin is waited for.

        *busy* is kept to the UIDs of pods of which nobody knows whether they are bound.
        kube-scheduler writes an Event for each binding; *tells_success* adds HAMi's own.
        """
        self._state, self._gate, self._calls, self._locks = state, gate, calls, locks
        self._metrics, self._events, self._pace = metrics, events, pace
        self._tells_success = tells_success
        self._route = metrics.slow_route(PATH)
        self._under_way: set[str] = set()
        self.busy = set[str]() if busy is None else busy
        self._writer = Writer(calls, gate.leads)
        self._rollback = Rollback(
            state=state,
            calls=calls,
            locks=locks,
            metrics=metrics,
            busy=self.busy,
            settle_s=pace.settle_s,
        )

    async def bind(self, args: BindingArgs) -> str:
        """Bind a pod; return the error for kube-scheduler, empty where there is none."""
        began = time.perf_counter()
        with self._route.measure() as outcome:
            try:
                text = await self._bind(args, outcome)
            except Exception as error:  # one pod's trouble
                log.exception("bind failed", pod=_shown(args)[:_POD_MAX])
                text = f"{type(error).__name__} while the pod was bound; the log tells more"
        log.info(
            "pod bound" if not text else "pod not bound",
            pod=_shown(args)[:_POD_MAX],
            node=args.node[:_NODE_MAX],
            **({"reason": text[:_REASON_MAX]} if text else {}),
            ms=round((time.perf_counter() - began) * 1000, 1),
        )
        return text

    async def _bind(self, args: BindingArgs, outcome: Outcome) -> str:
        words: tuple[str, ...] = ("",)
        try:
            tried = attempt(self._reservation(args))
            words = tried.words
            await self._carry_out(tried)
        except BindError as error:
            outcome.result = Result.FAILED if error.is_ours else Result.REFUSED
            for word in words:
                self._metrics.allocation_failures.labels(Phase.BIND.value, word, error.code).inc()
            self._say(args, "Warning", "BindingFailed", str(error))
            return str(error)
        outcome.result = Result.BOUND
        for word in words:
            self._metrics.allocations.labels(Phase.BIND.value, word).inc()
        if self._tells_success:
            text = f"Successfully binding node [{args.node}] to {_shown(args)}"
            self._say(args, "Normal", "BindingSucceed", text)
        return ""

    def _reservation(self, args: BindingArgs) -> Reservation:
        """Return the live reservation of exactly this pod for exactly this node."""
        if (problem := self._gate.problem()) is not None:
            raise BindError("not_ready", problem)
        pod = self._state.pod(args.pod_namespace, args.pod_name)
        uid = args.pod_uid or (pod.uid if pod else "")
        reservation = self._state.reservation(uid)
        if pod is None and reservation is None:
            raise BindError("pod_not_found", f'pod "{args.pod_name}" not found')
        if pod is not None:
            _check_pod(pod, uid)
        if reservation is None or (reservation.namespace, reservation.name) != (
            args.pod_namespace,
            args.pod_name,
        ):
            text = f"nothing is reserved for pod {_shown(args)} any more; it must be filtered again"
            raise BindError("no_reservation", text)
        if reservation.placement.node != args.node:
            text = f"node {args.node} is not {reservation.placement.node}, which was chosen"
            raise BindError("other_node", text)
        if self._state.node(args.node) is None:
            self._state.drop(uid)
            raise BindError("node_not_found", f'node "{args.node}" not found')
        if uid in self._under_way or uid in self.busy:
            raise BindError("under_way", f"pod {_shown(args)} is being bound already")
        return reservation

    async def _carry_out(self, tried: Attempt) -> None:
        self._under_way.add(tried.uid)
        self._state.hold(tried.uid, self._pace.lock_wait_s + _SPARE_S)
        try:
            await self._lock(tried)
            if (problem := self._void(tried.reservation)) is not None:
                await self._rollback.give_back(tried)
                raise BindError("no_reservation", problem)
            await self._write(tried)
        finally:
            self._under_way.discard(tried.uid)

    async def _lock(self, tried: Attempt) -> None:
        if self._locks is None or not tried.reservation.locks:
            return
        try:
            tried.locked = await self._locks.acquire(
                tried.wanted,
                wait_s=self._pace.lock_wait_s,
                wanted_still=lambda: self._void(tried.reservation),
            )
        except LockError as error:
            self._rollback.free(tried)
            raise BindError("node_lock", str(error)) from error

    def _void(self, reservation: Reservation) -> str | None:
        """Return why *reservation* must not be written any more."""
        if not self._gate.leads():
            return self._gate.problem() or "another scheduler leads"
        if self._state.reservation(reservation.uid) != reservation:
            return f"the reservation of pod {reservation.namespace}/{reservation.name} is void"
        return self._state.objection(reservation.uid)

    async def _write(self, tried: Attempt) -> None:
        shown = f"pod {tried.namespace}/{tried.name}"
        # From here on nobody but the outcome, or the watch, may end the reservation.
        self._state.written(tried.uid)
        self.busy.add(tried.uid)
        step = "annotated"
        try:
            pod = await self._writer.annotate(tried)
            step = f"bound to {tried.node}"
            await self._writer.bind(tried, pod)
        except (KubeError, NotOursError) as error:
            if not await self._rollback.is_bound_after_all(tried):
                code = "binding" if tried.may_be_written else "annotations"
                text = f"{shown} cannot be {step}: {error}"
                raise BindError(code, text, ours=True) from error
        finally:
            if not self._rollback.is_settling(tried.uid):
                self.busy.discard(tried.uid)
        self._state.written(tried.uid)

    def _say(self, args: BindingArgs, type_: EventType, reason: str, text: str) -> None:
        if self._events is None or not args.pod_uid:
            return
        pod = Regarding(
            api_version="v1",
            kind="Pod",
            namespace=args.pod_namespace,
            name=args.pod_name,
            uid=args.pod_uid,
        )
        self._metrics.events.labels(reason).inc()
        self._events.event(pod, type_, reason, text)


def _check_pod(pod: PodFacts, uid: str) -> None:
    shown = f"{pod.namespace}/{pod.name}"
    if pod.uid != uid:
        raise BindError("other_pod", f"pod {shown} is another one by now: {pod.uid}, not {uid}")
    if pod.node:
        raise BindError("bound", f"pod {shown} is bound to node {pod.node} already")


def _shown(args: BindingArgs) -> str:
    return f"{args.pod_namespace}/{args.pod_name}"
