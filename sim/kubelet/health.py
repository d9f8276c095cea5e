"""What plugins say about the health of their devices.

Every response is the complete list of a driver. What it says of a device, or the last response
that named the device, holds only as long as its timeout: a plugin that stops reporting leaves its
devices `Unknown` (kubelet: `cm/dra/healthinfo.go`).
"""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
import structlog

from protos import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
)
from sim.kubelet.plugin import Plugin
from sim.kubelet.release import HEALTH_V1, HEALTH_V1ALPHA1, Release
from sim.kubelet.timing import Timing

log = structlog.get_logger(__name__)

_WORDS: Final = ("Unknown", "Healthy", "Unhealthy")
_MESSAGE_BYTES: Final = 1024
_WIRES: Final[Mapping[str, tuple[Any, Any]]] = {
    HEALTH_V1: (dra_health_v1_pb2, dra_health_v1_pb2_grpc.DRAResourceHealthStub),
    HEALTH_V1ALPHA1: (dra_health_v1alpha1_pb2, dra_health_v1alpha1_pb2_grpc.DRAResourceHealthStub),
}

DeviceKey = tuple[str, str, str]
"""Driver, pool and device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """One device's health as kubelet would show it in a pod's status."""

    health: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Report:
    health: str
    message: str
    expires_s: float


class HealthCache:
    """The last word about every device; usable from any thread."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._lock = threading.Lock()
        self._reports: dict[DeviceKey, _Report] = {}

    def take(self, driver: str, response: Any) -> None:
        """Take note of a response of the stream of *driver*.

        A device that it does not name keeps what was said of it before until that is too old.
        """
        now_s = time.monotonic()
        found = {}
        for one in response.devices:
            asked_s = one.health_check_timeout_seconds
            timeout_s = asked_s if asked_s > 0 else self._timing.health_timeout_s
            key = (driver, one.device.pool_name, one.device.device_name)
            found[key] = _Report(_WORDS[one.health], _cut(one.message), now_s + timeout_s)
        with self._lock:
            for key, report in list(self._reports.items()):
                if key[0] == driver and key not in found and now_s >= report.expires_s:
                    del self._reports[key]
            self._reports.update(found)

    def forget(self, driver: str) -> None:
        """Know nothing of *driver* any more: its stream has ended."""
        with self._lock:
            self._drop(driver)

    def look(self) -> dict[DeviceKey, DeviceHealth]:
        """Return every reported device; one not reported again in time is `Unknown`."""
        now_s = time.monotonic()
        with self._lock:
            return {
                key: DeviceHealth(
                    health=report.health if now_s < report.expires_s else _WORDS[0],
                    message=report.message if now_s < report.expires_s else "",
                )
                for key, report in self._reports.items()
            }

    def _drop(self, driver: str) -> None:
        for key in [key for key in self._reports if key[0] == driver]:
            del self._reports[key]


class HealthWatch:
    """Follow the health stream of one plugin in a thread until the plugin is closed."""

    def __init__(
        self,
        plugin: Plugin,
        service: str,
        cache: HealthCache,
        timing: Timing,
        *,
        gives_up: bool = True,
    ) -> None:
        """Open the stream; a watch that *gives_up* asks once only where nobody implements it."""
        self.service = service
        self._gives_up = gives_up
        self._plugin = plugin
        self._cache = cache
        self._timing = timing
        self._stopped = threading.Event()
        self._stream: Any = None
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the stream; its thread ends soon after."""
        self._stopped.set()
        if self._stream is not None:
            self._stream.cancel()

    def join(self) -> None:
        """Wait for the thread of a stopped watch."""
        self._thread.join(timeout=5)

    def _run(self) -> None:
        driver = self._plugin.info.driver
        while not self._stopped.is_set():
            unimplemented = False
            try:
                for response in self._responses():
                    self._cache.take(driver, response)
            except (grpc.RpcError, ValueError) as error:
                # ValueError is grpcio's word for a channel that was closed meanwhile.
                unimplemented = _code(error) is grpc.StatusCode.UNIMPLEMENTED
                if not self._stopped.is_set():
                    log.info("health stream ended", driver=driver, error=str(error))
            self._cache.forget(driver)
            if unimplemented and self._gives_up:
                return
            self._stopped.wait(self._timing.health_retry_s)

    def _responses(self) -> Iterator[Any]:
        messages, stub = _WIRES[self.service]
        watch = stub(self._plugin.channel).NodeWatchResources
        self._stream = watch(messages.NodeWatchResourcesRequest())
        if self._stopped.is_set():
            self._stream.cancel()
        yield from self._stream


def choose_health(plugin: Plugin, release: Release) -> str | None:
    """Return the health service to watch on *plugin*; `None` for none."""
    for service in release.health_services:
        if release.health_unasked or service in plugin.info.supported:
            return service
    return None


def _code(error: Exception) -> grpc.StatusCode | None:
    # What a stream raises is the stream itself, which carries its status.
    return error.code() if isinstance(error, grpc.Call) else None


def _cut(message: str) -> str:
    data = message.encode()
    if len(data) <= _MESSAGE_BYTES:
        return message
    return data[: _MESSAGE_BYTES - 3].decode(errors="replace") + "..."
