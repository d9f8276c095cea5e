"""Give devices of plugins to containers, and take them back when pods have ended.

A pod is admitted container by container, init containers first, with one Allocate for each
resource of a container; ids that an init container had are used again before free ones. Which ids
are taken is chance, as the order of Go's maps is, unless the plugin prefers some. What an ended pod
held is found out only when the next one is admitted or somebody asks for the list of pods
(kubelet: `pkg/kubelet/cm/devicemanager/manager.go`, with the topology policy `none`).
"""

import asyncio
import random
from collections.abc import Callable, Collection
from pathlib import Path

import structlog

from kube.objects import JsonObject
from kube.quantity import parse
from sim.kubelet import devicecheckpoint
from sim.kubelet.deviceoptions import DeviceOptions, options_of
from sim.kubelet.deviceplugins import DevicePlugins
from sim.kubelet.devicestock import Device, DeviceStock, NodeResources
from sim.kubelet.errors import DeviceError
from sim.kubelet.poddevices import NO_NUMA_NODE, Entry, Held, PodDevices
from sim.kubelet.podspec import is_sidecar
from sim.kubelet.release import Release
from sim.kubelet.timing import Timing

log = structlog.get_logger(__name__)


class DeviceManager:
    """The devices of one kubelet process; it belongs to kubelet's loop."""

    def __init__(
        self,
        directory: Path,
        active_pods: Callable[[], Collection[str]],
        *,
        release: Release,
        timing: Timing,
        seed: int | None = None,
    ) -> None:
        """*directory* is `device-plugins`; *active_pods* are UIDs of those that have not ended."""
        self._active_pods = active_pods
        self._release = release
        self._checkpoint = directory / devicecheckpoint.FILE
        self._random = random.Random(seed)  # noqa: S311
        self._stock = DeviceStock()
        self.held = PodDevices()
        self._taken: dict[str, set[str]] = {}
        self._reusable: tuple[str, dict[str, set[str]]] = ("", {})
        # Kubelet admits pods one after the other.
        self._admitting = asyncio.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        self._plugins = DevicePlugins(
            directory, self._stock, release=release, timing=timing, on_devices=self._save
        )
        found = devicecheckpoint.read(self._checkpoint)
        self.is_new = found is None
        """Whether nothing is known of an earlier kubelet on this node."""
        if found is not None:
            entries, resources = found
            for entry in entries:
                self.held.add(entry)
            self._taken = self.held.taken()
            self._stock.restore(resources, timing)

    def start(self) -> None:
        """Remove the sockets of an earlier kubelet's plugins, and let plugins register."""
        self._plugins.start()

    async def stop(self) -> None:
        """End all connections."""
        await self._plugins.stop()

    async def admit(self, pod: JsonObject, *, running: Collection[str] = ()) -> None:
        """Allocate what all containers of *pod* ask for; raise `DeviceError`.

        *running* are containers that an earlier kubelet has started: they have their devices.
        """
        async with self._admitting:
            spec = pod["spec"]
            for container in (*spec.get("initContainers", []), *spec["containers"]):
                await self._allocate(pod, container, running=container["name"] in running)

    async def options(self, pod: JsonObject, container: JsonObject, root: Path) -> DeviceOptions:
        """Return what *container* gets when it is made; raise `DeviceError`."""
        uid, name = pod["metadata"]["uid"], container["name"]
        missing = False
        for resource, number in _asked(container).items():
            if not number or not self._is_known(resource):
                continue
            await self._pre_start(uid, name, resource)
            missing = missing or self.held.ids(uid, name, resource) is None
        if missing:
            async with self._admitting:
                await self._allocate(pod, container, running=False)
        answers = [held.response for held in self.held.of(uid, name).values()]
        self._random.shuffle(answers)
        return options_of(answers, root)

    def node_resources(self) -> NodeResources:
        """Return what the node's status says, and forget plugins that are away too long."""
        found = self._stock.resources()
        if found.removed:
            self._save()
        return found

    def free_ended(self) -> None:
        """Let go of what ended pods held."""
        self.held.keep(self._active_pods())
        self._taken = self.held.taken()

    def plugins(self) -> dict[str, str]:
        """Return the socket of the plugin in use for each resource, if it is connected."""
        known = dict(self._stock.endpoints)
        return {resource: str(one.socket) for resource, one in known.items() if one.connected}

    def healthy_devices(self) -> dict[str, list[Device]]:
        """Return the healthy devices of all resources, taken or not."""
        stock = self._stock
        return {
            resource: [stock.devices[resource][one] for one in sorted(ids)]
            for resource, ids in stock.healthy.items()
            if ids
        }

    def _is_known(self, resource: str) -> bool:
        return resource in self._stock.healthy or resource in self._taken

    async def _allocate(self, pod: JsonObject, container: JsonObject, *, running: bool) -> None:
        uid, name = pod["metadata"]["uid"], container["name"]
        if self._reusable[0] != uid:
            self._reusable = (uid, {})
        reusable = self._reusable[1]
        asked = list(_asked(container).items())
        self._random.shuffle(asked)
        freed, saved = False, True
        for resource, number in asked:
            if self._is_of_claim(pod, name, resource) or not self._is_known(resource):
                continue
            if not freed:
                self.free_ended()
                freed = True
            if running:
                continue
            ids = await self._choose(uid, name, resource, number)
            if ids:
                await self._give(uid, name, resource, ids)
                saved = False
        if not saved:
            self._save()
        brief = container in pod["spec"].get("initContainers", []) and not is_sidecar(container)
        for resource, held in self.held.of(uid, name).items():
            known = reusable.setdefault(resource, set())
            known |= held.ids
            if not brief:
                known -= held.ids

    async def _choose(self, uid: str, name: str, resource: str, number: int) -> set[str]:
        """Choose *number* ids that are to be allocated; none where the container has its own."""
        stock = self._stock
        before = self.held.ids(uid, name, resource)
        if before is not None and len(before) != number:
            message = (
                f'pod "{uid}" container "{name}" changed request for resource "{resource}" '
                f"from {len(before)} to {number}"
            )
            raise DeviceError(message)
        if resource not in stock.healthy:
            message = f"cannot allocate unregistered device {resource}"
            raise DeviceError(message)
        if not stock.healthy[resource]:
            message = f"no healthy devices present; cannot allocate unhealthy devices {resource}"
            raise DeviceError(message)
        if not (before or frozenset()) <= stock.healthy[resource]:
            message = (
                "previously allocated devices are no longer healthy; "
                f"cannot allocate unhealthy devices {resource}"
            )
            raise DeviceError(message)
        if before is not None or not number:
            return set()
        return await self._pick(resource, number)

    async def _pick(self, resource: str, number: int) -> set[str]:
        chosen: set[str] = set()

        def full(ids: Collection[str]) -> bool:
            more = [one for one in sorted(ids) if one not in chosen]
            self._random.shuffle(more)
            more = more[: number - len(chosen)]
            chosen.update(more)
            self._taken.setdefault(resource, set()).update(more)
            return len(chosen) == number

        if full(self._reusable[1].get(resource, ())):
            return chosen
        available = self._stock.healthy[resource] - self._taken.get(resource, set())
        if len(available) < number - len(chosen):
            message = (
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {number - len(chosen)}, Available: {len(available)}"
            )
            raise DeviceError(message)
        preferred = await self._preferred(resource, available | chosen, set(chosen), number)
        if not full(preferred & available):
            full(available)
        return chosen

    async def _preferred(
        self, resource: str, available: set[str], must_include: set[str], number: int
    ) -> set[str]:
        endpoint = self._stock.endpoints[resource]
        if not endpoint.options.get_preferred_allocation_available:
            return set()
        return await endpoint.preferred(self._mixed(available), self._mixed(must_include), number)

    async def _give(self, uid: str, name: str, resource: str, ids: set[str]) -> None:
        endpoint = self._stock.endpoints[resource]
        try:
            answer = await endpoint.allocate(self._mixed(ids))
        except DeviceError:
            self._taken = self.held.taken()
            raise
        by_node: dict[int, tuple[str, ...]] = {}
        for one in sorted(ids):
            for node in self._stock.numa_nodes(resource, one) or (NO_NUMA_NODE,):
                by_node[node] = (*by_node.get(node, ()), one)
        held = Held(by_numa_node=by_node, response=answer)
        self.held.add(Entry(pod_uid=uid, container=name, resource=resource, held=held))
        log.info(
            "devices allocated", pod_uid=uid, container=name, resource=resource, ids=sorted(ids)
        )

    async def _pre_start(self, uid: str, name: str, resource: str) -> None:
        endpoint = self._stock.endpoints.get(resource)
        if endpoint is None:
            message = f"endpoint not found in cache for a registered resource: {resource}"
            raise DeviceError(message)
        if not endpoint.options.pre_start_required:
            return
        ids = self.held.ids(uid, name, resource)
        if ids is None:
            message = (
                f"no devices found allocated in local cache for pod {uid}, container {name}, "
                f"resource {resource}"
            )
            raise DeviceError(message)
        await endpoint.pre_start(self._mixed(ids))

    def _is_of_claim(self, pod: JsonObject, container: str, resource: str) -> bool:
        extended = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
        return self._release.spares_claim_resources and any(
            one["containerName"] == container and one["resourceName"] == resource
            for one in extended.get("requestMappings", [])
        )

    def _mixed(self, ids: Collection[str]) -> list[str]:
        mixed = sorted(ids)
        self._random.shuffle(mixed)
        return mixed

    def _save(self) -> None:
        devicecheckpoint.write(self._checkpoint, self.held, self._stock.healthy)


def _asked(container: JsonObject) -> dict[str, int]:
    """Return what *container* asks for that may be a plugin's; limits and requests are equal."""
    limits = container.get("resources", {}).get("limits", {})
    return {name: parse(str(text)).value() for name, text in limits.items() if "/" in name}
