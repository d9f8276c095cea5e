"""`/bind`: what was decided is written, all of it in one PATCH, and the pod is bound.

HAMi writes the devices when it filters; pods that are never bound carry them until then. Here the
reservation is in memory, and a binding without one is refused: kube-scheduler tries the pod again.
So is one for another pod of the name, a bound pod, or another node than was chosen; the API server
checks the UID once more, since it stands in the PATCH and in the Binding.

What fails is taken back: the annotations, the locks, the reservation. Where it cannot be told
whether the pod was bound, nothing is taken back before that is known.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from extender.calls import Calls
from extender.gate import Gate
from extender.locks import LockError, NodeLocks, Wanted
from extender.metrics import Metrics, Outcome, Phase, Result
from extender.parts import PodFacts, Reservation, State
from extender.wire import BindingArgs
from hami import keys
from hami.nodelock import Owner
from hami.vendors import Lock
from kube.errors import ApiError, ConflictError, KubeError, NotFoundError, ServerError
from kube.events import EventRecorder, EventType, Regarding
from kube.objects import JsonObject

log = structlog.get_logger(__name__)

PATH: Final = "/bind"
_ALLOCATING: Final = "allocating"
_SPARE_S: Final = 30.0
"""How long a reservation is kept beyond the longest wait for a lock."""
_SETTLE_TRIES: Final = 8
_LABEL_MAX: Final = 63
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
    ) -> None:
        """Without *locks* no device plugin is waited for."""
        self._state, self._gate, self._calls, self._locks = state, gate, calls, locks
        self._metrics, self._events, self._pace = metrics, events, pace
        self._route = metrics.slow_route(PATH)
        self._under_way: set[str] = set()
        self._unsettled: dict[str, asyncio.Task[None]] = {}

    async def bind(self, args: BindingArgs) -> str:
        """Bind a pod; return the error for kube-scheduler, empty where there is none."""
        began = time.perf_counter()
        with self._route.measure() as outcome:
            text = await self._bind(args, outcome)
        log.info(
            "pod bound" if not text else "pod not bound",
            pod=_shown(args)[:_POD_MAX],
            node=args.node[:_NODE_MAX],
            **({"reason": text[:_REASON_MAX]} if text else {}),
            ms=round((time.perf_counter() - began) * 1000, 1),
        )
        return text

    async def _bind(self, args: BindingArgs, outcome: Outcome) -> str:
        words: tuple[str, ...] = ()
        try:
            reservation = self._reservation(args)
            words = tuple(sorted(reservation.placement.slots))
            await self._carry_out(reservation)
        except BindError as error:
            outcome.result = Result.FAILED if error.is_ours else Result.REFUSED
            for word in words or ("",):
                self._metrics.allocation_failures.labels(Phase.BIND.value, word, error.code).inc()
            self._say(args, "Warning", "BindingFailed", str(error))
            return str(error)
        outcome.result = Result.BOUND
        for word in words:
            self._metrics.allocations.labels(Phase.BIND.value, word).inc()
        self._say(
            args,
            "Normal",
            "BindingSucceed",
            f"Successfully binding node [{args.node}] to {args.pod_namespace}/{args.pod_name}",
        )
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
        if uid in self._under_way or uid in self._unsettled:
            raise BindError("under_way", f"pod {_shown(args)} is being bound already")
        return reservation

    async def _carry_out(self, reservation: Reservation) -> None:
        uid = reservation.uid
        self._under_way.add(uid)
        self._state.hold(uid, self._pace.lock_wait_s + _SPARE_S)
        try:
            locked = await self._lock(reservation)
            if (problem := self._void(reservation)) is not None:
                await self._unlock(reservation, locked)
                raise BindError("no_reservation", problem)
            await self._write(reservation, locked)
        finally:
            self._under_way.discard(uid)

    async def _lock(self, reservation: Reservation) -> Mapping[Lock, str]:
        if self._locks is None or not reservation.locks:
            return {}
        try:
            return await self._locks.acquire(
                _wanted(reservation),
                wait_s=self._pace.lock_wait_s,
                wanted_still=lambda: self._void(reservation),
            )
        except LockError as error:
            self._state.drop(reservation.uid)
            raise BindError("node_lock", str(error)) from error

    def _void(self, reservation: Reservation) -> str | None:
        """Return why *reservation* must not be written any more."""
        if not self._gate.leads():
            return self._gate.problem() or "another scheduler leads"
        if self._state.reservation(reservation.uid) != reservation:
            return f"the reservation of pod {reservation.namespace}/{reservation.name} is void"
        return None

    async def _write(self, reservation: Reservation, locked: Mapping[Lock, str]) -> None:
        namespace, name, node = reservation.namespace, reservation.name, reservation.placement.node
        try:
            await self._calls.change_pod(namespace, name, _metadata(reservation))
        except KubeError as error:
            await self._roll_back(reservation, locked, annotations=_may_be_written(error))
            raise BindError(
                "annotations", f"pod {namespace}/{name} cannot be annotated: {error}", ours=True
            ) from error
        if not self._gate.leads():
            await self._roll_back(reservation, locked, annotations=True)
            raise BindError("not_ready", self._gate.problem() or "another scheduler leads")
        try:
            await self._calls.bind(namespace, name, uid=reservation.uid, node=node)
        except KubeError as error:
            text = f"pod {namespace}/{name} cannot be bound to {node}: {error}"
            if not await self._is_bound_after_all(reservation, locked, error):
                raise BindError("binding", text, ours=True) from error
        self._state.written(reservation.uid)

    async def _is_bound_after_all(
        self, reservation: Reservation, locked: Mapping[Lock, str], error: KubeError
    ) -> bool:
        """Find out what a failed binding has done; take all back where it was nothing."""
        if _may_be_written(error) or isinstance(error, ConflictError):
            try:
                pod = await self._calls.pod(reservation.namespace, reservation.name)
            except NotFoundError:
                pod = None
            except KubeError:
                # Nobody knows: whatever holds the devices must hold them until somebody does.
                self._settle_later(reservation, locked)
                return False
            if pod is not None and _is_bound(pod, reservation):
                return True
        await self._roll_back(reservation, locked, annotations=True)
        return False

    def _settle_later(self, reservation: Reservation, locked: Mapping[Lock, str]) -> None:
        self._state.written(reservation.uid)
        task = asyncio.get_running_loop().create_task(self._settle(reservation, locked))
        self._unsettled[reservation.uid] = task
        task.add_done_callback(lambda _: self._unsettled.pop(reservation.uid, None))

    async def _settle(self, reservation: Reservation, locked: Mapping[Lock, str]) -> None:
        for attempt in range(_SETTLE_TRIES):
            await asyncio.sleep(self._pace.settle_s * 2**attempt)
            try:
                pod = await self._calls.pod(reservation.namespace, reservation.name)
            except NotFoundError:
                pod = None
            except KubeError as error:
                log.warning("binding not settled", pod=reservation.name, error=str(error))
                continue
            if pod is None or not _is_bound(pod, reservation):
                await self._roll_back(reservation, locked, annotations=True)
            return

    async def _roll_back(
        self, reservation: Reservation, locked: Mapping[Lock, str], *, annotations: bool
    ) -> None:
        """Take back what was written, and then free the devices."""
        for word in sorted(reservation.placement.slots) or [""]:
            self._metrics.bind_rollbacks.labels(Phase.BIND.value, word, "binding").inc()
        if annotations:
            await self._remove_annotations(reservation)
        await self._unlock(reservation, locked)
        self._state.drop(reservation.uid)

    async def _remove_annotations(self, reservation: Reservation) -> None:
        written = _metadata(reservation)
        metadata: JsonObject = {
            "uid": reservation.uid,
            "annotations": dict.fromkeys(written["annotations"]),
            "labels": dict.fromkeys(written["labels"]),
        }
        try:
            await self._calls.change_pod(reservation.namespace, reservation.name, metadata)
        except (NotFoundError, ConflictError):
            # Gone, or another pod of the name by now: there is nothing of ours on it.
            return
        except KubeError as error:
            log.warning("annotations not removed", pod=reservation.name, error=str(error))

    async def _unlock(self, reservation: Reservation, locked: Mapping[Lock, str]) -> None:
        if self._locks is not None and locked:
            await self._locks.release(_wanted(reservation), locked)

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
        self._events.event(pod, type_, reason, text)


def _check_pod(pod: PodFacts, uid: str) -> None:
    shown = f"{pod.namespace}/{pod.name}"
    if pod.uid != uid:
        raise BindError("other_pod", f"pod {shown} is another one by now: {pod.uid}, not {uid}")
    if pod.node:
        raise BindError("bound", f"pod {shown} is bound to node {pod.node} already")


def _is_bound(pod: PodFacts, reservation: Reservation) -> bool:
    return pod.uid == reservation.uid and pod.node == reservation.placement.node


def _may_be_written(error: KubeError) -> bool:
    """Tell whether a request may have had its effect though it failed."""
    return isinstance(error, ServerError) or not isinstance(error, ApiError)


def _wanted(reservation: Reservation) -> Wanted:
    return Wanted(
        node=reservation.placement.node,
        uid=reservation.uid,
        owner=Owner(reservation.namespace, reservation.name),
        kinds=reservation.locks,
    )


def _metadata(reservation: Reservation) -> JsonObject:
    """Return what is merged into the pod: its UID is a condition, the rest the decision."""
    node, now = reservation.placement.node, str(int(time.time()))
    annotations = {
        **reservation.annotations,
        keys.NODE: node,
        keys.TIME: now,
        keys.BIND_PHASE: _ALLOCATING,
        keys.BIND_TIME: now,
    }
    # HAMi's monitor selects pods by the label; a longer name is no label, and of no other use.
    labels = {keys.NODE: node} if len(node) <= _LABEL_MAX else {}
    return {"uid": reservation.uid, "annotations": annotations, "labels": labels}


def _shown(args: BindingArgs) -> str:
    return f"{args.pod_namespace}/{args.pod_name}"
