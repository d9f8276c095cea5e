"""Find plugin sockets and register them, socket by socket.

Kubelet learns of sockets by fsnotify and reconciles every second; here one poll does both. A
socket that was removed and made again between two polls is known by its inode and age, and is
first de-registered (kubelet: `pkg/kubelet/pluginmanager`).
"""

import asyncio
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from protos import pluginregistration_v1_pb2 as wire
from protos import pluginregistration_v1_pb2_grpc as wire_grpc
from sim.kubelet.errors import CallError, KubeletError, RegistrationError
from sim.kubelet.plugin import Plugin, PluginInfo
from sim.kubelet.plugins import Plugins
from sim.kubelet.release import Release
from sim.kubelet.rpc import call, dial, open_channel
from sim.kubelet.timing import Timing, backoff

log = structlog.get_logger(__name__)

PLUGIN_TYPE = "DRAPlugin"

_Identity = tuple[int, int]


@dataclass(slots=True)
class _Socket:
    identity: _Identity
    task: asyncio.Task[None] | None = None
    plugin: Plugin | None = None
    failures: int = 0
    retry_at_s: float = 0.0


class Registrar:
    """Keep the plugins in use equal to the sockets in the watch directory."""

    def __init__(
        self,
        directory: Path,
        plugins: Plugins,
        *,
        release: Release,
        timing: Timing,
        on_added: Callable[[Plugin], None] = lambda _: None,
        on_removed: Callable[[Plugin], None] = lambda _: None,
    ) -> None:
        self._directory = directory
        self._plugins = plugins
        self._release = release
        self._timing = timing
        self._on_added = on_added
        self._on_removed = on_removed
        self._sockets: dict[Path, _Socket] = {}

    async def run(self) -> None:
        """Watch until cancelled; then close all connections."""
        try:
            while True:
                self._reconcile(find_sockets(self._directory))
                await asyncio.sleep(self._timing.poll_s)
        finally:
            for socket in self._sockets.values():
                self._drop(socket)
            self._sockets.clear()

    def _reconcile(self, found: dict[Path, _Identity]) -> None:
        for path in list(self._sockets):
            if self._sockets[path].identity != found.get(path):
                self._drop(self._sockets.pop(path))
                log.info("plugin socket gone", path=str(path))
        for path, identity in found.items():
            socket = self._sockets.setdefault(path, _Socket(identity))
            if self._due(socket):
                socket.task = asyncio.create_task(self._attempt(path, socket))

    def _due(self, socket: _Socket) -> bool:
        waiting = time.monotonic() < socket.retry_at_s
        return socket.plugin is None and socket.task is None and not waiting

    def _drop(self, socket: _Socket) -> None:
        if socket.task is not None:
            socket.task.cancel()
        if socket.plugin is not None:
            self._plugins.remove(socket.plugin)
            self._on_removed(socket.plugin)
            socket.plugin.close()

    async def _attempt(self, path: Path, socket: _Socket) -> None:
        try:
            socket.plugin = await self._register(path)
            log.info("plugin registered", path=str(path), driver=socket.plugin.info.driver)
        except KubeletError as error:
            socket.failures += 1
            limit_s = self._timing.registration_backoff_max_s
            wait_s = backoff(self._timing.registration_backoff_s, limit_s, socket.failures)
            socket.retry_at_s = time.monotonic() + wait_s
            log.warning("plugin registration failed", path=str(path), error=str(error))
        finally:
            socket.task = None

    async def _register(self, path: Path) -> Plugin:
        try:
            await dial(path, timeout_s=self._timing.dial_timeout_s)
        except TimeoutError as error:
            message = f"failed to dial {path}"
            raise RegistrationError(message) from error
        channel = open_channel(path)
        try:
            return await self._introduce(path, wire_grpc.RegistrationStub(channel))
        finally:
            channel.close()

    async def _introduce(self, path: Path, stub: wire_grpc.RegistrationStub) -> Plugin:
        timeout_s = self._timing.get_info_timeout_s
        said = await call("GetInfo", stub.GetInfo, wire.InfoRequest(), timeout_s=timeout_s)
        try:
            plugin = self._accept(check_info(said, path, self._release))
        except RegistrationError as error:
            await self._notify(stub, wire.RegistrationStatus(error=str(error)))
            raise
        try:
            await self._notify(stub, wire.RegistrationStatus(plugin_registered=True))
        except BaseException:
            self._plugins.remove(plugin)
            plugin.close()
            raise
        self._on_added(plugin)
        return plugin

    def _accept(self, info: PluginInfo) -> Plugin:
        plugin = Plugin(info, self._timing, knows_share_id=self._release.knows_share_id)
        try:
            self._plugins.add(plugin)
        except RegistrationError:
            plugin.close()
            raise
        return plugin

    async def _notify(
        self, stub: wire_grpc.RegistrationStub, status: wire.RegistrationStatus
    ) -> None:
        method, timeout_s = stub.NotifyRegistrationStatus, self._timing.notify_timeout_s
        try:
            await call("NotifyRegistrationStatus", method, status, timeout_s=timeout_s)
        except CallError as error:
            if status.plugin_registered:
                raise
            # A plugin may well answer bad news with an error; kubelet only logs it.
            log.info("plugin answered its refusal with an error", error=str(error))


def find_sockets(directory: Path) -> dict[Path, tuple[int, int]]:
    """Return the unix sockets below *directory* with what tells a new one from an old one."""
    found = {}
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            if name.startswith("."):
                continue
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(status.st_mode):
                # A file system may use the inode of a removed file again at once.
                found[path] = (status.st_ino, status.st_mtime_ns)
    return found


def check_info(said: wire.PluginInfo, path: Path, release: Release) -> PluginInfo:
    """Check what the plugin at *path* said; raise `RegistrationError`."""
    if said.type != PLUGIN_TYPE:
        message = f"no handler registered for plugin type: {said.type} at socket {path}"
        raise RegistrationError(message)
    if not said.name:
        message = "driver name is empty"
        raise RegistrationError(message)
    return PluginInfo(
        driver=said.name,
        endpoint=said.endpoint or str(path),
        service=choose_service(tuple(said.supported_versions), release.services),
        supported=tuple(said.supported_versions),
    )


def choose_service(supported: tuple[str, ...], known: frozenset[str]) -> str:
    """Return the first *supported* service that is *known*; raise `RegistrationError`."""
    if not supported:
        message = "empty list for supported versions"
        raise RegistrationError(message)
    for service in supported:
        if service in known:
            return service
    message = f"none of the supported services is known: {', '.join(supported)}"
    raise RegistrationError(message)
