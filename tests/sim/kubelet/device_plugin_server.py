# ruff: noqa: ARG002 - gRPC hands every method a request and a context
"""A real device plugin for tests, of the simulated kubelet and of real ones."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc

from protos import deviceplugin_v1beta1_pb2 as wire
from protos import deviceplugin_v1beta1_pb2_grpc as wire_grpc
from protos import podresources_v1_pb2_grpc

RESOURCE: Final = "example.com/gpu"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"


class RefusedError(Exception):
    """What an answer of a test raises in the plugin; kubelet gets its text."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the plugin saw it; ids sorted."""

    method: str
    ids: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    size: int = 0


def named(ids: list[str]) -> wire.ContainerAllocateResponse:
    """Answer with the ids in the environment."""
    return wire.ContainerAllocateResponse(envs={"IDS": ",".join(ids)})


def nothing(available: list[str], must_include: list[str], size: int) -> list[str]:
    """Prefer nothing."""
    return []


@dataclass
class DevicePluginServer:
    """A plugin below kubelet's *root*; change its answers at any time."""

    root: Path
    resource: str = RESOURCE
    endpoint: str = "gpu.sock"
    version: str = "v1beta1"
    devices: dict[str, str] = field(
        default_factory=lambda: {f"gpu-{number}": HEALTHY for number in range(4)}
    )
    """Health by id."""
    numa_nodes: dict[str, list[int]] = field(default_factory=dict)
    prefer: Callable[[list[str], list[str], int], list[str]] | None = None
    """Without it the plugin says that it does not know GetPreferredAllocation."""
    allocate: Callable[[list[str]], wire.ContainerAllocateResponse] = named
    pre_start: Callable[[list[str]], None] | None = None
    calls: list[Call] = field(default_factory=list)
    streams: int = 0
    """Streams of ListAndWatch that are open."""

    def __post_init__(self) -> None:
        self.folder = self.root / "device-plugins"
        self.socket = self.folder / self.endpoint
        self._server: grpc.Server | None = None
        self.changed = threading.Condition()
        self.ended = False

    def start(self) -> "DevicePluginServer":
        """Listen and register."""
        self.listen()
        self.register()
        return self

    def listen(self) -> None:
        """Listen at the plugin's socket."""
        self.ended = False
        server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        wire_grpc.add_DevicePluginServicer_to_server(_Service(self), server)
        server.add_insecure_port(f"unix:{self.socket}")
        server.start()
        self._server = server

    def register(self) -> None:
        """Register with kubelet; raise `grpc.RpcError`."""
        request = wire.RegisterRequest(
            version=self.version,
            endpoint=self.endpoint,
            resource_name=self.resource,
            # Kubelet asks GetDevicePluginOptions and does not look at these.
            options=wire.DevicePluginOptions(pre_start_required=True),
        )
        with _channel(self.folder / "kubelet.sock") as channel:
            wire_grpc.RegistrationStub(channel).Register(request, timeout=20)

    def say(self, **devices: str) -> None:
        """Change the health of devices; `gpu_0` is `gpu-0`."""
        with self.changed:
            self.devices |= {key.replace("_", "-"): health for key, health in devices.items()}
            self.changed.notify_all()

    def stop(self) -> None:
        """Stop; the socket goes too."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def made(self, method: str) -> list[Call]:
        """Return the calls of *method*."""
        return [call for call in self.calls if call.method == method]

    def told(self) -> wire.ListAndWatchResponse:
        """Return the list of devices."""
        devices = [
            wire.Device(ID=name, health=health, topology=self._topology(name))
            for name, health in self.devices.items()
        ]
        return wire.ListAndWatchResponse(devices=devices)

    def _topology(self, name: str) -> wire.TopologyInfo | None:
        nodes = [wire.NUMANode(ID=node) for node in self.numa_nodes.get(name, ())]
        return wire.TopologyInfo(nodes=nodes) if nodes else None


def pod_resources(root: Path, method: str, request: Any) -> Any:
    """Call a method of kubelet's PodResources."""
    with _channel(root / "pod-resources" / "kubelet.sock") as channel:
        stub = podresources_v1_pb2_grpc.PodResourcesListerStub(channel)
        return getattr(stub, method)(request, timeout=20)


def _channel(socket: Path) -> grpc.Channel:
    options = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(f"unix:{socket}", options=options)


class _Service(wire_grpc.DevicePluginServicer):
    def __init__(self, plugin: DevicePluginServer) -> None:
        self._plugin = plugin

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802
        plugin = self._plugin
        plugin.calls.append(Call("GetDevicePluginOptions"))
        return wire.DevicePluginOptions(
            pre_start_required=plugin.pre_start is not None,
            get_preferred_allocation_available=plugin.prefer is not None,
        )

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        plugin = self._plugin
        plugin.calls.append(Call("ListAndWatch"))
        context.add_callback(lambda: setattr(plugin, "streams", plugin.streams - 1))
        plugin.streams += 1
        said = None
        while context.is_active() and not plugin.ended:
            with plugin.changed:
                told = plugin.told()
                if told == said:
                    plugin.changed.wait(0.2)
                    continue
            said = told
            yield told

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        (wanted,) = request.container_requests
        call = Call(
            "GetPreferredAllocation",
            tuple(sorted(wanted.available_deviceIDs)),
            tuple(sorted(wanted.must_include_deviceIDs)),
            wanted.allocation_size,
        )
        self._plugin.calls.append(call)
        prefer = self._plugin.prefer or nothing
        chosen = self._answered(context, prefer, list(call.ids), list(call.must_include), call.size)
        response = wire.ContainerPreferredAllocationResponse(deviceIDs=chosen)
        return wire.PreferredAllocationResponse(container_responses=[response])

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        (wanted,) = request.container_requests
        ids = sorted(wanted.devices_ids)
        self._plugin.calls.append(Call("Allocate", tuple(ids)))
        response = self._answered(context, self._plugin.allocate, ids)
        return wire.AllocateResponse(container_responses=[response])

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        ids = sorted(request.devices_ids)
        self._plugin.calls.append(Call("PreStartContainer", tuple(ids)))
        if self._plugin.pre_start is not None:
            self._answered(context, self._plugin.pre_start, ids)
        return wire.PreStartContainerResponse()

    @staticmethod
    def _answered(context: Any, answer: Callable[..., Any], *args: Any) -> Any:
        try:
            return answer(*args)
        except RefusedError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
