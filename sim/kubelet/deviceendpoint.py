"""One device plugin as kubelet calls it.

Kubelet waits for Allocate and GetPreferredAllocation as long as the plugin likes; only a
connection and PreStartContainer have limits. Nothing is called again after the stream of
ListAndWatch has ended: the plugin has to register anew (kubelet: `devicemanager/endpoint.go`,
`plugin/v1beta1/client.go`).
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import structlog

from protos import deviceplugin_v1beta1_pb2 as wire
from protos import deviceplugin_v1beta1_pb2_grpc as wire_grpc
from sim.kubelet.errors import CallError, DeviceError
from sim.kubelet.rpc import call, close_later, dial, go_status, open_channel
from sim.kubelet.timing import Timing

log = structlog.get_logger(__name__)


class Endpoint:
    """A connection to a plugin; its methods belong to kubelet's loop."""

    def __init__(self, resource: str, socket: Path | None, timing: Timing) -> None:
        """Without a *socket* it is a plugin of an earlier kubelet that has not come back."""
        self.resource = resource
        self.socket = socket or Path()
        self.options = wire.DevicePluginOptions()
        self._timing = timing
        self._stopped_s = None if socket else time.monotonic()
        self._channel = open_channel(socket) if socket else None
        self._stub: Any = self._channel and wire_grpc.DevicePluginStub(self._channel)
        self._stream: Any = None
        self._closed = threading.Event()

    @property
    def connected(self) -> bool:
        """Tell whether the plugin may be called."""
        return self._stopped_s is None

    def stop(self) -> None:
        """Begin the grace period."""
        self._stopped_s = time.monotonic()

    def over(self) -> bool:
        """Tell whether the grace period is over."""
        since, grace_s = self._stopped_s, self._timing.endpoint_grace_s
        return since is not None and time.monotonic() - since > grace_s

    async def connect(self) -> None:
        """Connect and ask for the plugin's options; raise `DeviceError`."""
        try:
            await dial(self.socket, timeout_s=self._timing.dial_timeout_s)
        except TimeoutError as error:
            message = "failed to dial device plugin: context deadline exceeded"
            raise DeviceError(message) from error
        stub = self._stub.GetDevicePluginOptions
        self.options = await self._call(stub, wire.Empty(), "failed to get device plugin options: ")

    def watch(
        self, on_devices: Callable[[Sequence[wire.Device]], None], on_end: Callable[[], None]
    ) -> None:
        """Follow ListAndWatch in a thread; the callbacks are called in the running loop."""
        loop = asyncio.get_running_loop()

        def tell(callback: Callable[..., None], *args: Any) -> None:
            # The loop may have ended meanwhile; then nobody waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(callback, *args)

        def follow() -> None:
            try:
                self._stream = self._stub.ListAndWatch(wire.Empty())
                if self._closed.is_set():
                    self._stream.cancel()
                for response in self._stream:
                    tell(on_devices, list(response.devices))
            except (grpc.RpcError, ValueError) as error:
                # ValueError is grpcio's word for a channel that was closed meanwhile.
                log.info("device plugin lost", resource=self.resource, error=str(error))
            tell(on_end)

        threading.Thread(target=follow, name="list-and-watch", daemon=True).start()

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> set[str]:
        """Ask which of the *available* ids the plugin would take; raise `DeviceError`."""
        self._check()
        wanted = wire.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        answer = await self._call(
            self._stub.GetPreferredAllocation,
            wire.PreferredAllocationRequest(container_requests=[wanted]),
            "device plugin GetPreferredAllocation rpc failed with err: ",
        )
        responses = answer.container_responses
        return set(responses[0].deviceIDs) if responses else set()

    async def allocate(self, ids: Sequence[str]) -> wire.ContainerAllocateResponse:
        """Allocate *ids* for one container; raise `DeviceError`."""
        self._check()
        wanted = wire.ContainerAllocateRequest(devices_ids=ids)
        answer = await self._call(
            self._stub.Allocate, wire.AllocateRequest(container_requests=[wanted])
        )
        if not answer.container_responses:
            message = f"no containers return in allocation response {answer}"
            raise DeviceError(message)
        found: wire.ContainerAllocateResponse = answer.container_responses[0]
        return found

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Tell the plugin that a container with *ids* is about to start; raise `DeviceError`."""
        self._check()
        await self._call(
            self._stub.PreStartContainer,
            wire.PreStartContainerRequest(devices_ids=ids),
            "device plugin PreStartContainer rpc failed with err: ",
            timeout_s=self._timing.pre_start_timeout_s,
        )

    def close(self) -> None:
        """End the connection and with it the stream."""
        self._closed.set()
        if self._stream is not None:
            self._stream.cancel()
        if self._channel is not None:
            close_later(self._channel)

    def _check(self) -> None:
        if not self.connected:
            message = f"endpoint {self.resource} has been stopped"
            raise DeviceError(message)

    async def _call(
        self, method: Any, request: Any, prefix: str = "", *, timeout_s: float | None = None
    ) -> Any:
        try:
            return await call("DevicePlugin", method, request, timeout_s=timeout_s)
        except CallError as error:
            message = f"{prefix}{go_status(error.code, error.details)}"
            raise DeviceError(message) from error
