"""Registration of device plugins at `device-plugins/kubelet.sock`, and the end of connections.

A plugin must listen before it registers, since kubelet calls it within that call. Kubelet removes
every socket of the folder when it starts, so plugins notice and register anew. What a second
registration means differs: up to 1.36 it takes the place of the first, and when either connection
ends it is the *latest* that counts as lost; from 1.37 on it is refused while the first connection
from the same socket stands, which moreover is then never again found to have ended (kubelet:
`pkg/kubelet/cm/devicemanager/plugin/v1beta1`).
"""

import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from protos import deviceplugin_v1beta1_pb2 as wire
from protos import deviceplugin_v1beta1_pb2_grpc as wire_grpc
from sim.kubelet.deviceendpoint import Endpoint
from sim.kubelet.devicestock import DeviceStock
from sim.kubelet.errors import DeviceError
from sim.kubelet.release import Release
from sim.kubelet.serving import SocketServer
from sim.kubelet.timing import Timing

log = structlog.get_logger(__name__)

SOCKET: Final = "kubelet.sock"
VERSION: Final = "v1beta1"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_RESOURCE: Final = re.compile(
    rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
)
_PREFIX_CHARACTERS: Final = 253 - len("requests.")


class DevicePlugins:
    """Keep the connections of registered plugins; it belongs to kubelet's loop."""

    def __init__(
        self,
        directory: Path,
        stock: DeviceStock,
        *,
        release: Release,
        timing: Timing,
        on_devices: Callable[[], None],
    ) -> None:
        """*on_devices* is told when the *stock* has changed by a plugin's list."""
        self._directory = directory
        self._stock = stock
        self._release = release
        self._timing = timing
        self._on_devices = on_devices
        self._server = SocketServer(directory / SOCKET)
        self._clients: dict[str, list[Endpoint]] = {}
        self._connected: dict[str, dict[Path, Endpoint]] = {}
        """From 1.37 on: endpoints that were not seen to end, by resource and socket."""
        self._all: list[Endpoint] = []

    def start(self) -> None:
        """Remove all sockets and listen."""
        for path in self._directory.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        service = _Service(self)
        self._server.start(
            lambda server: wire_grpc.add_RegistrationServicer_to_server(service, server)
        )

    async def stop(self) -> None:
        """Listen no more and end all connections."""
        await self._server.stop()
        for endpoint in self._all:
            endpoint.close()

    async def register(self, request: wire.RegisterRequest) -> None:
        """Connect to a plugin that registers; raise `DeviceError`."""
        if request.version != VERSION:
            message = (
                f'requested API version "{request.version}" is not supported by kubelet. '
                f'Supported version is ["{VERSION}"]'
            )
            raise DeviceError(message)
        if not is_extended_resource(request.resource_name):
            message = f'the ResourceName "{request.resource_name}" is invalid'
            raise DeviceError(message)
        path = self._directory / request.endpoint
        endpoint = Endpoint(request.resource_name, path, self._timing)
        self._all.append(endpoint)
        before = self._clients.get(endpoint.resource, []) if self._release.keeps_endpoints else []
        self._clients[endpoint.resource] = [*before, endpoint]
        try:
            await endpoint.connect()
            self._take(endpoint)
        except DeviceError:
            self._forget(endpoint)
            endpoint.close()
            raise
        endpoint.watch(
            lambda devices: self._said(endpoint.resource, devices), lambda: self._ended(endpoint)
        )
        log.info("device plugin registered", resource=endpoint.resource, socket=str(path))

    def answer(self, request: wire.RegisterRequest, context: grpc.ServicerContext) -> None:
        """Answer a registration; called in a thread of the server."""
        self._server.answer(self.register(request), context)

    def _take(self, endpoint: Endpoint) -> None:
        if self._release.keeps_endpoints:
            known = self._connected.setdefault(endpoint.resource, {})
            if endpoint.socket in known:
                message = f"device plugin already connected: {endpoint.socket}"
                raise DeviceError(message)
            known[endpoint.socket] = endpoint
        self._stock.endpoints[endpoint.resource] = endpoint

    def _said(self, resource: str, devices: Sequence[wire.Device]) -> None:
        self._stock.take(resource, devices)
        self._on_devices()

    def _forget(self, endpoint: Endpoint) -> None:
        """Drop a client; from 1.37 on every one that has its socket."""
        known = self._clients.pop(endpoint.resource, [])
        if self._release.keeps_endpoints:
            left = [each for each in known if each.socket != endpoint.socket]
            if left:
                self._clients[endpoint.resource] = left

    def _ended(self, endpoint: Endpoint) -> None:
        known = self._clients.get(endpoint.resource, [])
        if self._release.keeps_endpoints:
            known = [each for each in known if each.socket == endpoint.socket]
        if not known:
            return
        self._forget(endpoint)
        # Up to 1.36 this is the latest, whichever connection has ended.
        known[0].close()
        self._lost(known[0])

    def _lost(self, endpoint: Endpoint) -> None:
        resource = endpoint.resource
        if self._release.keeps_endpoints:
            connected = self._connected.get(resource, {})
            known = connected.pop(endpoint.socket, None)
            if known is None:
                return
            known.stop()
            if connected:
                self._stock.endpoints[resource] = next(iter(connected.values()))
                return
        elif resource in self._stock.endpoints:
            self._stock.endpoints[resource].stop()
        self._stock.lose(resource)
        log.info("device plugin gone", resource=resource)


class _Service(wire_grpc.RegistrationServicer):
    def __init__(self, plugins: DevicePlugins) -> None:
        self._plugins = plugins

    def Register(self, request: Any, context: Any) -> wire.Empty:  # noqa: N802
        self._plugins.answer(request, context)
        return wire.Empty()


def is_extended_resource(name: str) -> bool:
    """Tell whether a plugin may offer a resource of this *name*."""
    prefix = name.partition("/")[0]
    native = "kubernetes.io/" in name or name.startswith("requests.")
    return (
        not native and len(prefix) <= _PREFIX_CHARACTERS and _RESOURCE.fullmatch(name) is not None
    )
