"""The kubelet of one node: plugins, pods and what is left when it restarts.

A restart loses what a process loses (plugin connections, which claims are prepared, timers) and
keeps the checkpoints, the sockets of DRA plugins and the running containers. Sockets of device
plugins it removes.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from kube.objects import JsonObject
from sim.apiserver.api import Api
from sim.apiserver.errors import GoneError, StatusError
from sim.kubelet.claiminfo import ClaimCache
from sim.kubelet.claims import ClaimManager
from sim.kubelet.devicemanager import DeviceManager
from sim.kubelet.errors import ClaimError, KubeletError
from sim.kubelet.events import PodEvents
from sim.kubelet.health import DeviceHealth, DeviceKey, HealthCache, HealthWatch, choose_health
from sim.kubelet.nodeobject import node_object, register_node
from sim.kubelet.nodestatus import NodeStatus
from sim.kubelet.plugin import Plugin
from sim.kubelet.plugins import Plugins
from sim.kubelet.podresources import PodResources
from sim.kubelet.podworker import PodWorker, Services
from sim.kubelet.registration import Registrar
from sim.kubelet.release import Release
from sim.kubelet.timing import Timing
from sim.kubelet.wiping import ConnectionMonitor
from sim.runtime.runtime import Runtime

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig:
    """What does not change over restarts."""

    node: str
    root: Path
    """Kubelet's own root directory, where plugins look for `plugins_registry`."""
    release: Release
    timing: Timing = field(default_factory=Timing)
    labels: Mapping[str, str] = field(default_factory=dict)
    host_ip: str = "192.0.2.1"
    pod_network: str = "10.244.0"
    seed: int | None = None


class Kubelet:
    """One kubelet process after another, on the same node; all methods belong to one loop."""

    def __init__(self, api: Api, runtime: Runtime, config: KubeletConfig) -> None:
        self._api = api
        self._runtime = runtime
        self._config = config
        self._process: _Process | None = None

    async def start(self) -> None:
        """Start the kubelet; it registers its node and deletes the node's slices."""
        self._process = _Process(self._api, self._runtime, self._config)
        await self._process.start()

    async def stop(self) -> None:
        """Stop the kubelet; containers run on."""
        if self._process is not None:
            await self._process.stop()
            self._process = None

    async def restart(self) -> None:
        """Stop the kubelet and start it again."""
        await self.stop()
        await self.start()

    def registered_drivers(self) -> dict[str, list[str]]:
        """Return the endpoints in use by driver, in order of registration; from any thread."""
        process = self._process
        if process is None:
            return {}
        plugins = process.plugins
        return {
            driver: [plugin.info.endpoint for plugin in plugins.instances(driver)]
            for driver in plugins.drivers()
        }

    def device_plugins(self) -> dict[str, str]:
        """Return the socket of the device plugin in use for each resource; from any thread."""
        process = self._process
        return process.devices.plugins() if process else {}

    def device_health(self) -> dict[DeviceKey, DeviceHealth]:
        """Return what plugins report of their devices; from any thread."""
        process = self._process
        return process.health.look() if process else {}


class _Process:
    """All that dies with a kubelet process."""

    def __init__(self, api: Api, runtime: Runtime, config: KubeletConfig) -> None:
        self._api = api
        self._runtime = runtime
        self._config = config
        self.plugins = Plugins()
        self.health = HealthCache(config.timing)
        self._health_watches: dict[Plugin, HealthWatch] = {}
        self._monitor = ConnectionMonitor(self.plugins, self._delete_slices, config.timing)
        config.root.mkdir(parents=True, exist_ok=True)
        self._claims = ClaimManager(
            ClaimCache(config.root / "dra_manager_state"),
            self.plugins,
            self._get_claim,
            release=config.release,
            seed=config.seed,
        )
        self.devices = DeviceManager(
            config.root / "device-plugins",
            self._active_pods,
            release=config.release,
            timing=config.timing,
            seed=config.seed,
        )
        self._pod_resources = PodResources(
            config.root / "pod-resources",
            lambda: list(self._workers.values()),
            self.devices,
            self._claims.cache,
            release=config.release,
        )
        self._status = NodeStatus(api, config.node, self.devices.node_resources, config.timing)
        self._services = Services(
            api=api,
            claims=self._claims,
            devices=self.devices,
            runtime=runtime,
            events=PodEvents(api, config.node),
            timing=config.timing,
            host_ip=config.host_ip,
        )
        self._workers: dict[str, PodWorker] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pod_count = 0

    async def start(self) -> None:
        config = self._config
        registry = config.root / "plugins_registry"
        for folder in (registry, config.root / "plugins"):
            folder.mkdir(parents=True, exist_ok=True)
        node = node_object(
            config.node,
            labels=config.labels,
            root=self._runtime.root,
            git_version=config.release.git_version,
            host_ip=config.host_ip,
        )
        await register_node(self._api, node)
        if self.devices.is_new:
            await self._status.reset()
        await self._delete_slices(None)
        self.devices.start()
        self._pod_resources.start()
        registrar = Registrar(
            registry,
            self.plugins,
            release=config.release,
            timing=config.timing,
            on_added=self._plugin_added,
            on_removed=self._plugin_removed,
        )
        for job in (
            registrar.run,
            self._monitor.run,
            self._status.run,
            self._watch_pods,
            self._reconcile_claims,
        ):
            self._spawn(job)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for watch in self._health_watches.values():
            watch.stop()
        for watch in self._health_watches.values():
            await asyncio.to_thread(watch.join)
        await self._pod_resources.stop()
        await self.devices.stop()

    def _spawn(self, job: Any) -> None:
        task = asyncio.create_task(self._guarded(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, job: Any) -> None:
        try:
            await job()
        except Exception:
            log.exception("kubelet task died", node=self._config.node, task=job.__qualname__)

    async def _watch_pods(self) -> None:
        while True:
            with contextlib.suppress(GoneError):
                fields = f"spec.nodeName={self._config.node}"
                pods, version = await self._api.list("pods", fields=fields)
                self._take_list(pods)
                async for kind, pod in self._api.watch("pods", resource_version=version):
                    if pod.get("spec", {}).get("nodeName") == self._config.node:
                        self._take(kind, pod)
                return

    def _take_list(self, pods: list[JsonObject]) -> None:
        present = {pod["metadata"]["uid"] for pod in pods}
        for uid in set(self._workers) - present:
            self._workers[uid].update(None)
        for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
            self._take("MODIFIED", pod)
        for uid in {view.pod.uid for view in self._runtime.containers()} - set(self._workers):
            # Deleted while no kubelet ran; its claims go in the reconcile loop.
            self._runtime.remove_pod(uid)

    def _take(self, kind: str, pod: JsonObject) -> None:
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(None if kind == "DELETED" else pod)
        elif kind != "DELETED":
            self._pod_count += 1
            pod_ip = f"{self._config.pod_network}.{self._pod_count % 250 + 2}"
            worker = PodWorker(pod, self._services, pod_ip=pod_ip)
            self._workers[uid] = worker
            self._spawn(lambda: self._work(worker))

    async def _work(self, worker: PodWorker) -> None:
        try:
            await worker.run()
        finally:
            del self._workers[worker.uid]

    async def _reconcile_claims(self) -> None:
        """Unprepare what belongs to pods that are no longer here."""
        while True:
            await asyncio.sleep(self._config.timing.reconcile_s)
            for uid in sorted(self._claims.cache.pods() - set(self._workers)):
                try:
                    await self._claims.unprepare_gone(uid)
                except KubeletError as error:
                    log.warning("claims of a gone pod kept", pod_uid=uid, error=str(error))

    def _active_pods(self) -> set[str]:
        return {uid for uid, worker in self._workers.items() if not worker.ended}

    async def _get_claim(self, namespace: str, name: str) -> JsonObject:
        try:
            return await self._api.get("resourceclaims", name, namespace)
        except StatusError as error:
            message = f"fetch ResourceClaim {name}: {error}"
            raise ClaimError(message) from error

    async def _delete_slices(self, driver: str | None) -> int:
        fields = f"spec.nodeName={self._config.node}"
        if driver is not None:
            fields += f",spec.driver={driver}"
        slices, _ = await self._api.list("resourceslices", fields=fields)
        for one in slices:
            try:
                await self._api.delete("resourceslices", one["metadata"]["name"])
            except StatusError as error:
                if error.code != 404:
                    raise
        return len(slices)

    def _plugin_added(self, plugin: Plugin) -> None:
        self._monitor.watch(plugin.info.driver)
        service = choose_health(plugin, self._config.release)
        if service is not None:
            self._health_watches[plugin] = HealthWatch(
                plugin,
                service,
                self.health,
                self._config.timing,
                gives_up=self._config.release.health_ends_unimplemented,
            )

    def _plugin_removed(self, plugin: Plugin) -> None:
        watch = self._health_watches.pop(plugin, None)
        if watch is not None:
            watch.stop()
