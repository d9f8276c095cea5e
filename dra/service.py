"""Kubelet's DRA calls in both versions, answered by one handler.

v1beta1 has the same messages as v1 without the share ID. Every claim of a request gets an entry
in the answer, whatever happens: kubelet takes a missing one as a failure of the whole call. One
claim's refusal is its own error and does not keep the others from being prepared.
"""

from collections.abc import Callable, Iterable
from typing import Any

import grpc
import structlog
from structlog.contextvars import bound_contextvars

from dra.claims import ClaimReference
from dra.health import HealthStreams
from dra.metrics import Call, Metrics
from dra.prepare import Preparer
from dra.record import PreparedClaim
from dra.render import cdi_id
from gpu.refusal import RefusedError
from protos import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
)

log = structlog.get_logger(__name__)


class DraService:
    """The handler behind both versions."""

    def __init__(
        self,
        preparer: Preparer,
        metrics: Metrics,
        *,
        prepared: Callable[[PreparedClaim], None],
        released: Callable[[], None],
    ) -> None:
        """Prepare; *prepared* and *released* are told after the respective work is done."""
        self._preparer = preparer
        self._metrics = metrics
        self._prepared = prepared
        self._released = released

    def prepare(
        self, messages: Any, claims: Iterable[ClaimReference], context: grpc.ServicerContext
    ) -> Any:
        """Answer `NodePrepareResources` in the version of *messages*."""

        def prepare_one(claim: ClaimReference, entry: Any) -> None:
            record = self._preparer.prepare(claim, wanted=context.is_active)
            _fill(messages, entry, record)
            self._prepared(record)
            log.info("claim prepared", devices=[each.device for each in record.devices])

        response = messages.NodePrepareResourcesResponse()
        return self._answer(response, claims, self._metrics.prepare, prepare_one)

    def unprepare(self, messages: Any, claims: Iterable[ClaimReference]) -> Any:
        """Answer `NodeUnprepareResources` in the version of *messages*."""

        def unprepare_one(claim: ClaimReference, _entry: Any) -> None:
            record = self._preparer.unprepare(claim.uid)
            self._released()
            log.info("claim unprepared", known=record is not None)

        response = messages.NodeUnprepareResourcesResponse()
        return self._answer(response, claims, self._metrics.unprepare, unprepare_one)

    def _answer(
        self,
        response: Any,
        claims: Iterable[ClaimReference],
        call: Call,
        one: Callable[[ClaimReference, Any], None],
    ) -> Any:
        for claim in claims:
            entry = response.claims[claim.uid]
            entry.SetInParent()
            # The preparer fills in the pods once it knows them.
            ids = {
                "claim_uid": claim.uid,
                "claim": f"{claim.namespace}/{claim.name}",
                "pod_uids": (),
            }
            with bound_contextvars(**ids), call.measure() as outcome:
                try:
                    one(claim, entry)
                except RefusedError as error:
                    outcome.code = error.refusal.code
                    entry.error = str(error)
                    log.warning("call refused", call=call.name, reason=entry.error)
                except Exception as error:  # the top of one claim's work
                    outcome.code = "InternalError"
                    entry.error = f"InternalError: {error!r}"
                    log.exception("call failed", call=call.name)
        return response


def _fill(messages: Any, entry: Any, record: PreparedClaim) -> None:
    with_share_id = "share_id" in messages.Device.DESCRIPTOR.fields_by_name
    for device in record.devices:
        answer = entry.devices.add(
            request_names=[device.request],
            pool_name=device.pool,
            device_name=device.device,
            cdi_device_ids=[cdi_id(record, device)],
        )
        if with_share_id and device.share_id is not None:
            answer.share_id = device.share_id


class V1(dra_v1_pb2_grpc.DRAPluginServicer):
    """DRA v1: Kubernetes 1.34 and newer."""

    def __init__(self, service: DraService) -> None:
        self._service = service

    def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Prepare every claim of *request*."""
        return self._service.prepare(dra_v1_pb2, request.claims, context)

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Unprepare every claim of *request*."""
        return self._service.unprepare(dra_v1_pb2, request.claims)


class V1Beta1(dra_v1beta1_pb2_grpc.DRAPluginServicer):
    """DRA v1beta1: Kubernetes 1.32 and newer, deprecated since 1.34."""

    def __init__(self, service: DraService) -> None:
        self._service = service

    def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Prepare every claim of *request*."""
        return self._service.prepare(dra_v1beta1_pb2, request.claims, context)

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Unprepare every claim of *request*."""
        return self._service.unprepare(dra_v1beta1_pb2, request.claims)


class HealthV1(dra_health_v1_pb2_grpc.DRAResourceHealthServicer):
    """Health v1: Kubernetes 1.37 and newer."""

    def __init__(self, streams: HealthStreams) -> None:
        self._streams = streams

    def NodeWatchResources(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Stream the health of all devices."""
        return self._streams.watch(dra_health_v1_pb2, context)


class HealthV1Alpha1(dra_health_v1alpha1_pb2_grpc.DRAResourceHealthServicer):
    """Health v1alpha1: Kubernetes 1.34 to 1.39."""

    def __init__(self, streams: HealthStreams) -> None:
        self._streams = streams

    def NodeWatchResources(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002
        """Stream the health of all devices."""
        return self._streams.watch(dra_health_v1alpha1_pb2, context)
