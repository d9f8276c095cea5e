# ruff: noqa: ARG002 - gRPC hands every method a request and a context
"""A real gRPC plugin for tests: registration and DRA services, answers and calls at hand."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from protos import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)

DRIVER = "gpu.example.com"


@dataclass(slots=True)
class Call:
    """One call as the plugin saw it."""

    method: str
    service: str
    uids: list[str]
    names: list[str]


@dataclass(slots=True)
class Entry:
    """One entry of an answer."""

    cdi: tuple[str, ...] = ()
    requests: tuple[str, ...] = ("gpu",)
    error: str = ""
    share_id: str | None = None


def good(uids: list[str]) -> dict[str, Entry]:
    """Answer every claim with one device named after it."""
    return {uid: Entry(cdi=(f"example.com/gpu={uid}",)) for uid in uids}


def good_unprepare(uids: list[str]) -> dict[str, str]:
    """Answer every claim without an error."""
    return dict.fromkeys(uids, "")


@dataclass
class PluginServer:
    """A plugin below kubelet's *root*; change its answers at any time."""

    root: Path
    driver: str = DRIVER
    instance: str = ""
    type: str = "DRAPlugin"
    versions: tuple[str, ...] = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
    info_delay_s: float = 0.0
    prepare: Callable[[list[str]], dict[str, Entry]] = good
    unprepare: Callable[[list[str]], dict[str, str]] = good_unprepare
    health: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Device, health, timeout in seconds, message: sent when a stream opens."""
    serves_health: bool = True
    own_endpoint: bool = True
    calls: list[Call] = field(default_factory=list)
    info_calls: int = 0
    statuses: list[tuple[bool, str]] = field(default_factory=list)
    health_services: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        suffix = f"-{self.instance}" if self.instance else ""
        self.data = self.root / "plugins" / self.driver
        self.socket = self.data / f"dra{suffix}.sock"
        self.registration = self.root / "plugins_registry" / f"{self.driver}{suffix}-reg.sock"
        self._dra: grpc.Server | None = None
        self._reg: grpc.Server | None = None
        self._ended = threading.Event()

    def start(self) -> "PluginServer":
        """Serve both sockets."""
        self.data.mkdir(parents=True, exist_ok=True)
        self._ended.clear()
        self.start_dra()
        self._reg = _server()
        pluginregistration_v1_pb2_grpc.add_RegistrationServicer_to_server(
            _Registration(self), self._reg
        )
        if not self.own_endpoint:
            _add_dra(self, self._reg)
        self._reg.add_insecure_port(f"unix:{self.registration}")
        self._reg.start()
        return self

    def start_dra(self) -> None:
        """Serve the DRA socket alone."""
        self._dra = _server()
        _add_dra(self, self._dra)
        self._dra.add_insecure_port(f"unix:{self.socket}")
        self._dra.start()

    def stop_dra(self) -> None:
        """Lose the DRA connection and keep the registration socket, as a crash does."""
        self._ended.set()
        if self._dra is not None:
            self._dra.stop(0).wait()

    def stop(self) -> None:
        """Stop both servers; grpc removes the sockets."""
        if self._reg is not None:
            self._reg.stop(0).wait()
        self.stop_dra()

    def made(self, method: str) -> list[list[str]]:
        """Return the sorted claim UIDs of each call of *method*."""
        return [sorted(call.uids) for call in self.calls if call.method == method]

    def stream(self, service: str, messages: Any) -> Iterator[Any]:
        """Serve one health stream until the plugin stops."""
        self.health_services.append(service)
        devices = [
            messages.DeviceHealth(
                device=messages.DeviceIdentifier(pool_name="pool", device_name=name),
                health=health,
                health_check_timeout_seconds=timeout_s,
                message=message,
            )
            for name, health, timeout_s, message in self.health
        ]
        yield messages.NodeWatchResourcesResponse(devices=devices)
        self._ended.wait(30)


def _server() -> grpc.Server:
    return grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])


def _add_dra(plugin: PluginServer, server: grpc.Server) -> None:
    dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_Dra(plugin, "v1", dra_v1_pb2), server)
    dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(
        _Dra(plugin, "v1beta1", dra_v1beta1_pb2), server
    )
    dra_health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server(
        _Health(plugin, "v1", dra_health_v1_pb2), server
    )
    dra_health_v1alpha1_pb2_grpc.add_DRAResourceHealthServicer_to_server(
        _Health(plugin, "v1alpha1", dra_health_v1alpha1_pb2), server
    )


class _Registration(pluginregistration_v1_pb2_grpc.RegistrationServicer):
    def __init__(self, plugin: PluginServer) -> None:
        self._plugin = plugin

    def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._plugin.info_calls += 1
        time.sleep(self._plugin.info_delay_s)
        return pluginregistration_v1_pb2.PluginInfo(
            type=self._plugin.type,
            name=self._plugin.driver,
            endpoint=str(self._plugin.socket) if self._plugin.own_endpoint else "",
            supported_versions=self._plugin.versions,
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._plugin.statuses.append((request.plugin_registered, request.error))
        return pluginregistration_v1_pb2.RegistrationStatusResponse()


class _Dra(dra_v1_pb2_grpc.DRAPluginServicer, dra_v1beta1_pb2_grpc.DRAPluginServicer):
    """Both services: the messages are made with the module of the version."""

    def __init__(self, plugin: PluginServer, version: str, messages: Any) -> None:
        self._plugin = plugin
        self._version = version
        self._messages = messages

    def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        uids = self._note("prepare", request)
        response = self._messages.NodePrepareResourcesResponse()
        for uid, entry in self._plugin.prepare(uids).items():
            made = response.claims[uid]
            made.error = entry.error
            if not entry.error:
                device = made.devices.add(
                    request_names=entry.requests,
                    pool_name="pool",
                    device_name=f"device-{uid}",
                    cdi_device_ids=entry.cdi,
                )
                if entry.share_id is not None:
                    device.share_id = entry.share_id
        return response

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        uids = self._note("unprepare", request)
        response = self._messages.NodeUnprepareResourcesResponse()
        for uid, error in self._plugin.unprepare(uids).items():
            response.claims[uid].error = error
        return response

    def _note(self, method: str, request: Any) -> list[str]:
        uids = [claim.uid for claim in request.claims]
        names = [f"{claim.namespace}/{claim.name}" for claim in request.claims]
        self._plugin.calls.append(Call(method, self._version, uids, names))
        return uids


class _Health(
    dra_health_v1_pb2_grpc.DRAResourceHealthServicer,
    dra_health_v1alpha1_pb2_grpc.DRAResourceHealthServicer,
):
    def __init__(self, plugin: PluginServer, version: str, messages: Any) -> None:
        self._plugin = plugin
        self._version = version
        self._messages = messages

    def NodeWatchResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        if not self._plugin.serves_health:
            self._plugin.health_services.append(self._version)
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "no health here")
        return self._plugin.stream(self._version, self._messages)
