"""Kubelet's `DevicePlugin` service.

Kubelet keeps one `ListAndWatch` open for as long as it lives, and takes what it says as the whole.
Every container of a request has its place in the answer, because kubelet goes by the position. One
lock serialises `Allocate` and `GetPreferredAllocation`: which pod is meant is found out by looking
at what is still to come for each, and that is only right while nothing is being handed out.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import grpc
import structlog

from gpu.refusal import RefusedError
from hami.plugin.allocating import KubeletGoneError
from hami.plugin.granting import MESSAGE_MAX, Offers
from hami.plugin.model import Offer
from hami.plugin.offering import device_ids
from kube.errors import KubeError
from protos import deviceplugin_v1beta1_pb2 as api
from protos import deviceplugin_v1beta1_pb2_grpc as api_grpc

log = structlog.get_logger(__name__)

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
STREAMS_MAX: Final = 4
"""Kubelet needs one; one of an earlier kubelet may not have ended yet."""


class Allocating(Protocol):
    """Decides what a call is answered."""

    def allocate(
        self, asked: Sequence[Sequence[str]], *, wanted: Callable[[], bool]
    ) -> api.AllocateResponse:
        """Answer `Allocate`; raises `RefusedError`, `KubeError` and `KubeletGoneError`."""

    def prefer(self, asked: Sequence[api.ContainerPreferredAllocationRequest]) -> list[list[str]]:
        """Answer `GetPreferredAllocation` with ids for each container, none to let it choose."""


class PluginServicer(api_grpc.DevicePluginServicer):
    """Answers kubelet."""

    def __init__(
        self,
        *,
        offers: Offers,
        allocator: Allocating,
        numa_topology: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare; call `changed` whenever *offers* or *numa_topology* would answer otherwise."""
        self._offers, self._allocator, self._numa_topology = offers, allocator, numa_topology
        self._one_at_a_time = threading.Lock()
        self._news = threading.Condition()
        self._version = 0
        self._hang_ups = 0
        self._streams = 0
        self._problem: str | None = None

    def changed(self) -> None:
        """Tell kubelet what the node offers now, if that is something else."""
        with self._news:
            self._version += 1
            self._news.notify_all()

    def hang_up(self) -> None:
        """End all streams, so that their server can stop."""
        with self._news:
            self._hang_ups += 1
            self._streams = 0
            self._news.notify_all()

    def wait_listened(self, timeout_s: float) -> bool:
        """Wait until kubelet listens to the list; tell whether it does."""
        with self._news:
            return self._news.wait_for(lambda: self._streams > 0, timeout_s)

    @property
    def is_listened(self) -> bool:
        """Whether anybody listens to the list."""
        return self._streams > 0

    @property
    def is_known(self) -> bool:
        """Whether there is a list to send."""
        return self._offers() is not None

    def problem(self) -> str | None:
        """Return why the list cannot be sent, `None` when it can."""
        return self._problem

    def devices(self) -> api.ListAndWatchResponse:
        """Return the whole list; it is empty while nothing is known."""
        offer = self._offers() or Offer(cards=())
        return listed(offer, numa_topology=self._numa_topology())

    def GetDevicePluginOptions(  # noqa: N802  # the wire's name
        self,
        request: api.Empty,  # noqa: ARG002
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> api.DevicePluginOptions:
        """Say that kubelet should ask which ids to take."""
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    def ListAndWatch(  # noqa: N802
        self,
        request: api.Empty,  # noqa: ARG002
        context: grpc.ServicerContext,
    ) -> Iterator[api.ListAndWatchResponse]:
        """Send the list, and again whenever it changes."""
        with self._news:
            if self._streams >= STREAMS_MAX:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many listen already")
            self._streams += 1
            hang_ups, version = self._hang_ups, self._version
            self._news.notify_all()
        context.add_callback(self._wake)
        log.info("kubelet listens")
        sent = None
        try:
            while context.is_active() and hang_ups == self._hang_ups:
                devices = self.devices()
                self._check_size(devices, context)
                if devices != sent:
                    sent = devices
                    yield devices
                version = self._next_version(version, context, hang_ups)
        finally:
            with self._news:
                # Those that were hung up on are not counted any more.
                if hang_ups == self._hang_ups:
                    self._streams -= 1
            log.info("kubelet stopped listening")

    def GetPreferredAllocation(  # noqa: N802
        self,
        request: api.PreferredAllocationRequest,
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> api.PreferredAllocationResponse:
        """Name ids of the GPUs that were decided."""
        asked = list(request.container_requests)
        try:
            with self._one_at_a_time:
                answers = self._allocator.prefer(asked)
        except Exception:  # the top of a call; kubelet would refuse the pod for it
            log.exception("preference failed")
            answers = [[] for _ in asked]
        return api.PreferredAllocationResponse(
            container_responses=[
                api.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in answers
            ]
        )

    def Allocate(  # noqa: N802
        self, request: api.AllocateRequest, context: grpc.ServicerContext
    ) -> api.AllocateResponse:
        """Hand out what was decided for the pod that is meant."""
        asked = [list(each.devices_ids) for each in request.container_requests]
        try:
            with self._one_at_a_time:
                return self._allocator.allocate(asked, wanted=context.is_active)
        except RefusedError as error:
            code, reason = grpc.StatusCode.FAILED_PRECONDITION, str(error)
        except KubeError as error:
            code, reason = grpc.StatusCode.UNAVAILABLE, f"the API server cannot be asked: {error}"
        except KubeletGoneError:
            code, reason = grpc.StatusCode.CANCELLED, "nobody waited for the devices any more"
        except Exception as error:  # the top of a call
            log.exception("allocation failed")
            code, reason = grpc.StatusCode.INTERNAL, f"internal error: {error!r}"
        log.warning("allocation refused", reason=reason)
        context.abort(code, reason)
        raise AssertionError  # `abort` raises.

    def PreStartContainer(  # noqa: N802
        self,
        request: api.PreStartContainerRequest,  # noqa: ARG002
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> api.PreStartContainerResponse:
        """Do nothing: it is not asked for."""
        return api.PreStartContainerResponse()

    def _wake(self) -> None:
        with self._news:
            self._news.notify_all()

    def _next_version(self, version: int, context: grpc.ServicerContext, hang_ups: int) -> int:
        """Wait until there may be something to say, or nobody to say it to."""
        with self._news:
            self._news.wait_for(
                lambda: (
                    self._version != version
                    or self._hang_ups != hang_ups
                    or not context.is_active()
                )
            )
            return self._version

    def _check_size(self, devices: api.ListAndWatchResponse, context: grpc.ServicerContext) -> None:
        size = devices.ByteSize()
        if size <= MESSAGE_MAX:
            self._problem = None
            return
        self._problem = (
            f"the list of {len(devices.devices)} devices has {size} bytes and kubelet takes "
            f"{MESSAGE_MAX}: split GPUs into fewer parts"
        )
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, self._problem)


def listed(offer: Offer, *, numa_topology: bool) -> api.ListAndWatchResponse:
    """Return what kubelet is told of *offer*."""
    devices = []
    for card in offer.cards:
        health = HEALTHY if card.healthy else UNHEALTHY
        topology = None
        if numa_topology and card.numa >= 0:
            topology = api.TopologyInfo(nodes=[api.NUMANode(ID=card.numa)])
        devices += [
            api.Device(ID=each, health=health, topology=topology) for each in device_ids(card)
        ]
    return api.ListAndWatchResponse(devices=devices)
