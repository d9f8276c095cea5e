"""One registered plugin instance: its connection and kubelet's two calls.

The messages of both DRA services are the same but for `share_id`, so answers become one value.
Kubelet watches the connection itself; it must come back by itself after a loss.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from protos import dra_v1_pb2, dra_v1_pb2_grpc, dra_v1beta1_pb2, dra_v1beta1_pb2_grpc
from sim.kubelet.release import SERVICE_V1, SERVICE_V1BETA1
from sim.kubelet.rpc import call, close_later, open_channel
from sim.kubelet.timing import Timing

_WIRES: Final[Mapping[str, tuple[Any, Any]]] = {
    SERVICE_V1: (dra_v1_pb2, dra_v1_pb2_grpc.DRAPluginStub),
    SERVICE_V1BETA1: (dra_v1beta1_pb2, dra_v1beta1_pb2_grpc.DRAPluginStub),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """A claim as plugin calls name it."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """One device of a prepare answer."""

    request_names: tuple[str, ...]
    pool_name: str
    device_name: str
    cdi_device_ids: tuple[str, ...]
    share_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareAnswer:
    """One entry of a prepare response."""

    devices: tuple[PreparedDevice, ...]
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """What a plugin said about itself, and what kubelet made of it."""

    driver: str
    endpoint: str
    service: str
    """The DRA service that was chosen."""
    supported: tuple[str, ...] = ()


class Plugin:
    """A connection to one plugin instance, usable from any thread."""

    def __init__(self, info: PluginInfo, timing: Timing, *, knows_share_id: bool = True) -> None:
        self.info = info
        self._timing = timing
        self._knows_share_id = knows_share_id
        self._messages, stub = _WIRES[info.service]
        self.channel = open_channel(info.endpoint)
        self._stub = stub(self.channel)
        self._state = grpc.ChannelConnectivity.IDLE
        self._ready = threading.Event()
        self.channel.subscribe(self._note, try_to_connect=True)

    @property
    def connected(self) -> bool:
        """Tell whether the connection is up."""
        return self._ready.is_set()

    def nudge(self) -> None:
        """Connect again where a lost connection left the channel idle."""
        if self._state is grpc.ChannelConnectivity.IDLE:
            self.channel.unsubscribe(self._note)
            self.channel.subscribe(self._note, try_to_connect=True)

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, PrepareAnswer]:
        """Call NodePrepareResources and return the entries by UID; raise `CallError`."""
        request = self._messages.NodePrepareResourcesRequest(claims=self._claims(claims))
        response = await call(
            "NodePrepareResources",
            self._stub.NodePrepareResources,
            request,
            timeout_s=self._timing.call_timeout_s,
        )
        return {uid: self._answer(entry) for uid, entry in response.claims.items()}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Call NodeUnprepareResources and return the errors by UID; raise `CallError`."""
        request = self._messages.NodeUnprepareResourcesRequest(claims=self._claims(claims))
        response = await call(
            "NodeUnprepareResources",
            self._stub.NodeUnprepareResources,
            request,
            timeout_s=self._timing.call_timeout_s,
        )
        return {uid: entry.error for uid, entry in response.claims.items()}

    def close(self) -> None:
        """End the connection; calls on it are ended by those who wait for them."""
        self._ready.clear()
        self.channel.unsubscribe(self._note)
        close_later(self.channel)

    def _note(self, state: grpc.ChannelConnectivity) -> None:
        self._state = state
        if state is grpc.ChannelConnectivity.READY:
            self._ready.set()
        else:
            self._ready.clear()

    def _claims(self, claims: Sequence[ClaimRef]) -> list[Any]:
        make = self._messages.Claim
        return [make(namespace=one.namespace, name=one.name, uid=one.uid) for one in claims]

    def _answer(self, entry: Any) -> PrepareAnswer:
        return PrepareAnswer(
            devices=tuple(self._device(device) for device in entry.devices), error=entry.error
        )

    def _device(self, device: Any) -> PreparedDevice:
        has_share = (
            self._knows_share_id and self.info.service == SERVICE_V1 and device.HasField("share_id")
        )
        return PreparedDevice(
            request_names=tuple(device.request_names),
            pool_name=device.pool_name,
            device_name=device.device_name,
            cdi_device_ids=tuple(device.cdi_device_ids),
            share_id=device.share_id if has_share else None,
        )
