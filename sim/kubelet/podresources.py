"""What containers hold, told at `pod-resources/kubelet.sock` to whoever asks.

Init containers are left out unless they run on. A claim is told with all of its devices, whichever
requests of it the container uses, and each device of a driver with the CDI names of those before it
as well (kubelet: `pkg/kubelet/apis/podresources`, `cm/container_manager_linux.go`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from kube.objects import JsonObject
from protos import podresources_v1_pb2 as wire
from protos import podresources_v1_pb2_grpc as wire_grpc
from sim.kubelet.claiminfo import ClaimCache, ClaimInfo
from sim.kubelet.devicemanager import DeviceManager
from sim.kubelet.errors import ClaimError, KubeletError
from sim.kubelet.podclaims import claim_name
from sim.kubelet.podspec import is_sidecar
from sim.kubelet.podworker import PodWorker
from sim.kubelet.release import Release
from sim.kubelet.serving import SocketServer

log = structlog.get_logger(__name__)

SOCKET: Final = "kubelet.sock"


class PodResources:
    """The server of one kubelet process."""

    def __init__(
        self,
        directory: Path,
        pods: Callable[[], Iterable[PodWorker]],
        devices: DeviceManager,
        claims: ClaimCache,
        *,
        release: Release,
    ) -> None:
        """*pods* returns all pods of the node."""
        directory.mkdir(parents=True, exist_ok=True)
        self._pods = pods
        self._devices = devices
        self._claims = claims
        self._release = release
        self._server = SocketServer(directory / SOCKET)

    def start(self) -> None:
        """Listen."""
        service = _Service(self, self._server)
        self._server.start(
            lambda server: wire_grpc.add_PodResourcesListerServicer_to_server(service, server)
        )

    async def stop(self) -> None:
        """Listen no more."""
        await self._server.stop()

    async def listed(self) -> wire.ListPodResourcesResponse:
        """Return what all pods hold."""
        self._devices.free_ended()
        all_ = not self._release.lists_active_pods
        pods = [self._pod(one.pod) for one in self._pods() if all_ or not one.ended]
        return wire.ListPodResourcesResponse(pod_resources=pods)

    async def got(self, namespace: str, name: str) -> wire.GetPodResourcesResponse:
        """Return what one pod holds; raise `KubeletError`."""
        if not self._release.tells_claims:
            raise KubeletError("PodResources API Get method disabled")
        for one in self._pods():
            meta = one.pod["metadata"]
            if (meta["namespace"], meta["name"]) == (namespace, name):
                return wire.GetPodResourcesResponse(pod_resources=self._pod(one.pod))
        message = f"pod {name} in namespace {namespace} not found"
        raise KubeletError(message)

    async def allocatable(self) -> wire.AllocatableResourcesResponse:
        """Return all healthy devices, taken or not."""
        found = [
            each
            for resource, devices in self._devices.healthy_devices().items()
            for device in devices
            for each in _devices(resource, device.id, device.numa_nodes)
        ]
        return wire.AllocatableResourcesResponse(devices=found)

    def _pod(self, pod: JsonObject) -> wire.PodResources:
        meta, spec = pod["metadata"], pod["spec"]
        sidecars = [one for one in spec.get("initContainers", []) if is_sidecar(one)]
        containers = [self._container(pod, one) for one in (*sidecars, *spec["containers"])]
        return wire.PodResources(
            name=meta["name"], namespace=meta["namespace"], containers=containers
        )

    def _container(self, pod: JsonObject, container: JsonObject) -> wire.ContainerResources:
        held = self._devices.held.of(pod["metadata"]["uid"], container["name"])
        devices: list[wire.ContainerDevices] = []
        for resource, one in held.items():
            for device in sorted(one.ids):
                nodes = [node for node, ids in one.by_numa_node.items() if device in ids]
                devices += _devices(resource, device, [node for node in nodes if node >= 0])
        return wire.ContainerResources(
            name=container["name"],
            devices=devices,
            dynamic_resources=self._dynamic(pod, container) if self._release.tells_claims else (),
        )

    def _dynamic(self, pod: JsonObject, container: JsonObject) -> list[wire.DynamicResource]:
        try:
            infos = list(self._claim_infos(pod, container))
        except ClaimError as error:
            log.warning("claims not told", pod_uid=pod["metadata"]["uid"], error=str(error))
            return []
        return [
            wire.DynamicResource(
                claim_name=info.name,
                claim_namespace=info.namespace,
                claim_resources=list(self._claim_devices(info)),
            )
            for info in infos
        ]

    def _claim_infos(self, pod: JsonObject, container: JsonObject) -> Iterator[ClaimInfo]:
        used = {use["name"] for use in container.get("resources", {}).get("claims", [])}
        names = [
            claim_name(pod, entry)
            for entry in pod["spec"].get("resourceClaims", [])
            if entry["name"] in used
        ]
        extended = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
        served = [one["containerName"] for one in extended.get("requestMappings", [])]
        if container["name"] in served:
            names.append(extended["resourceClaimName"])
        for name in names:
            info = self._claims.find(pod["metadata"]["namespace"], name) if name else None
            if name and info is None:
                message = f"unable to get information for ResourceClaim {name}"
                raise ClaimError(message)
            if info is not None:
                yield info

    def _claim_devices(self, info: ClaimInfo) -> Iterator[wire.ClaimResource]:
        for driver, devices in info.drivers.items():
            names: list[wire.CDIDevice] = []
            for device in devices:
                names += [wire.CDIDevice(name=name) for name in device.cdi_device_ids]
                told = wire.ClaimResource(
                    cdi_devices=names,
                    driver_name=driver,
                    pool_name=device.pool_name,
                    device_name=device.device_name,
                )
                if device.share_id is not None and self._release.knows_share_id:
                    told.share_id = device.share_id
                yield told


class _Service(wire_grpc.PodResourcesListerServicer):
    def __init__(self, resources: PodResources, server: SocketServer) -> None:
        self._resources = resources
        self._server = server

    def List(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ARG002, N802
        return self._server.answer(self._resources.listed(), context)

    def GetAllocatableResources(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ARG002, N802
        return self._server.answer(self._resources.allocatable(), context)

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        work = self._resources.got(request.pod_namespace, request.pod_name)
        return self._server.answer(work, context)


def _devices(resource: str, device: str, nodes: Sequence[int]) -> list[wire.ContainerDevices]:
    """Return one entry for *device*, or one for each of its NUMA nodes."""
    if not nodes:
        return [wire.ContainerDevices(resource_name=resource, device_ids=[device])]
    return [
        wire.ContainerDevices(
            resource_name=resource,
            device_ids=[device],
            topology=wire.TopologyInfo(nodes=[wire.NUMANode(ID=node)]),
        )
        for node in nodes
    ]
