"""`/refit`: a device plugin whose kubelet allows other devices than were chosen asks for these.

Messages as in HAMi after v2.10 (`pkg/device/numa_refit.go`). The pod is bound by then and its
container is being started, so the answer is a matter of two seconds, and everything that is asked
for is checked against the token of whoever asks: a plugin speaks for the pods of its own node.
"""

import time
from typing import Final

import msgspec
import structlog

from extender.binding_writing import may_be_carried_out
from extender.callers import Caller, CallerError, Callers
from extender.calls import Calls
from extender.gate import Gate
from extender.metrics import Metrics, Phase, Result
from extender.parts import RefitAsk, Refitted, Refitter, State
from hami.poddevices import encode_pod_devices
from kube.errors import ConflictError, KubeError
from kube.events import EventRecorder, EventType, Regarding

log = structlog.get_logger(__name__)

PATH: Final = "/refit"
BODY_MAX: Final = 256 * 1024
UUIDS_MAX: Final = 512
_TRIES: Final = 3
_POD_MAX: Final = 63
_REASON_MAX: Final = 96


class _Ask(msgspec.Struct, rename="camel"):
    pod_uid: str = msgspec.field(name="podUID")
    pod_namespace: str
    pod_name: str
    node_name: str
    container_index: int
    device_type: str
    allowed_device_uuids: list[str] = msgspec.field(name="allowedDeviceUUIDs")
    container_name: str = ""


_ASK: Final = msgspec.json.Decoder(_Ask)
_ENCODER: Final = msgspec.json.Encoder()


class Refitting:
    """Answers device plugins."""

    def __init__(  # noqa: PLR0913 - all that a refit touches
        self,
        *,
        refitter: Refitter,
        state: State,
        gate: Gate,
        calls: Calls,
        callers: Callers,
        metrics: Metrics,
        events: EventRecorder | None = None,
    ) -> None:
        self._refitter, self._state, self._gate = refitter, state, gate
        self._calls, self._callers = calls, callers
        self._metrics, self._events = metrics, events
        self._route = metrics.slow_route(PATH)

    async def admit(self, authorization: str) -> Caller:
        """Return who asks, before anything of a body is read; raises `CallerError`."""
        try:
            caller = await self._callers.identify(authorization)
        except CallerError:
            self._route.note(Result.REFUSED, 0.0)
            raise
        if (problem := self._gate.problem()) is not None:
            self._route.note(Result.REFUSED, 0.0)
            raise CallerError(503, problem)
        return caller

    async def refit(self, caller: Caller, body: bytes) -> bytes:
        """Return the answer; raises `CallerError` for what *caller* may not ask."""
        began = time.perf_counter()
        with self._route.measure() as outcome:
            outcome.result = Result.UNREADABLE
            ask = _read(body)
            outcome.result = Result.REFUSED
            self._check(caller, ask)
            found = await self._move(ask)
            if isinstance(found, Refitted):
                outcome.result = Result.REFITTED
        self._tell(ask, found, time.perf_counter() - began)
        if isinstance(found, Refitted):
            devices = encode_pod_devices((found.devices,)).removesuffix(";")
            return _ENCODER.encode({"succeeded": True, "containerDevices": devices})
        return _ENCODER.encode({"succeeded": False, "failureReason": found})

    def _check(self, caller: Caller, ask: RefitAsk) -> None:
        pod = self._state.pod(ask.namespace, ask.name)
        if ask.node != caller.node or (pod is not None and pod.node not in {"", caller.node}):
            raise CallerError(403, f"the caller runs on node {caller.node}, not the pod")
        if pod is None or pod.uid != ask.uid or not pod.node:
            text = f"pod {ask.namespace}/{ask.name} of UID {ask.uid} is not known here"
            raise CallerError(404, text)

    async def _move(self, ask: RefitAsk) -> Refitted | str:
        """Choose by the pod as it is now and write that; once more where it changed meanwhile."""
        for _ in range(_TRIES):
            try:
                pod = await self._calls.raw_pod(ask.namespace, ask.name)
            except KubeError as error:
                return f"the pod cannot be read: {error}"
            metadata, spec = pod["metadata"], pod.get("spec") or {}
            if (metadata.get("uid"), spec.get("nodeName")) != (ask.uid, ask.node):
                return "the pod is another one by now"
            found = self._refitter.refit(ask, pod)
            if isinstance(found, str):
                return found
            try:
                await self._write(ask, found, metadata["resourceVersion"])
            except ConflictError:
                self._refitter.undo(ask)
                continue
            except KubeError as error:
                if may_be_carried_out(error):
                    # The devices stay booked, and the watch will show which it is.
                    self._refitter.keep(ask)
                else:
                    self._refitter.undo(ask)
                return f"the pod cannot be annotated: {error}"
            self._refitter.keep(ask)
            return found
        return "the pod changes too often"

    async def _write(self, ask: RefitAsk, found: Refitted, resource_version: str) -> None:
        metadata = {
            "uid": ask.uid,
            "resourceVersion": resource_version,
            "annotations": dict(found.annotations),
        }
        await self._calls.change_pod(ask.namespace, ask.name, metadata)

    def _tell(self, ask: RefitAsk, found: Refitted | str, seconds: float) -> None:
        pod = f"{ask.namespace}/{ask.name}"
        if isinstance(found, Refitted):
            uuids = ",".join(each.uuid for each in found.devices)
            self._metrics.allocations.labels(Phase.REFIT.value, ask.word).inc()
            self._say(ask, "Normal", "NumaRefitSucceed", f"devices moved to {uuids}")
            facts = {"devices": uuids[:_REASON_MAX]}
        else:
            self._metrics.allocation_failures.labels(Phase.REFIT.value, ask.word, "refit").inc()
            self._say(ask, "Warning", "NumaRefitFailed", found)
            facts = {"reason": found[:_REASON_MAX]}
        log.info(
            "pod refitted" if isinstance(found, Refitted) else "pod not refitted",
            pod=pod[:_POD_MAX],
            **facts,
            ms=round(seconds * 1000, 1),
        )

    def _say(self, ask: RefitAsk, type_: EventType, reason: str, text: str) -> None:
        if self._events is not None:
            pod = Regarding(
                api_version="v1", kind="Pod", namespace=ask.namespace, name=ask.name, uid=ask.uid
            )
            self._metrics.events.labels(reason).inc()
            self._events.event(pod, type_, reason, text)


def _read(body: bytes) -> RefitAsk:
    try:
        said = _ASK.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallerError(400, f"the body cannot be read: {error}") from error
    if not 0 < len(said.allowed_device_uuids) <= UUIDS_MAX:
        raise CallerError(400, f"allowedDeviceUUIDs must name 1 to {UUIDS_MAX} devices")
    if said.container_index < 0:
        raise CallerError(400, "containerIndex must not be below 0")
    if not (said.pod_uid and said.pod_namespace and said.pod_name and said.node_name):
        raise CallerError(400, "podUID, podNamespace, podName and nodeName must be given")
    return RefitAsk(
        uid=said.pod_uid,
        namespace=said.pod_namespace,
        name=said.pod_name,
        node=said.node_name,
        container_index=said.container_index,
        container_name=said.container_name,
        word=said.device_type,
        allowed=frozenset(said.allowed_device_uuids),
    )
