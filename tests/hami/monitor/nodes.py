"""A node as the monitor sees it: pods, claims, regions of living processes, GPUs, kubelet."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from dra.record import GpuLimit, LimitOptions, PreparedClaim, PreparedDevice
from gpu.errors import GpuError
from gpu.model import GpuUuid
from gpu.usage import GpuProcess, GpuUsage
from hami.monitor.monitor import Monitor, MonitorOptions
from hami.monitor.places import Owner, directory_of
from hami.monitor.podresources import ContainerResources, PodResourcesError
from hami.monitor.pods import ClaimUse, NodeContainer, NodePod
from hami.monitor.regions.layouts import V1_2
from hami.monitor.sources import Sources
from kube.events import EventType, Regarding
from tests.hami.monitor.regionfiles import placed, poke

GPU = "GPU-aa000000-1111-2222-3333-000000bb0000"
GPU_B = "GPU-aa000001-1111-2222-3333-000000bb0001"
NODE = Regarding(api_version="v1", kind="Node", name="node-1", uid="node-uid")
NOW_S = 1_796_000_000.0


def pod_uid(number: int) -> str:
    """Return a UID."""
    return f"00000000-0000-4000-8000-{number:012d}"


def pod(
    number: int = 1,
    *,
    running: bool = True,
    claim: str = "",
    container: str = "main",
    annotations: dict[str, str] | None = None,
) -> NodePod:
    """Return a pod with one container that runs."""
    claims = (ClaimUse(claim=claim),) if claim else ()
    return NodePod(
        uid=pod_uid(number),
        namespace="team",
        name=f"pod-{number}",
        containers=(NodeContainer(name=container, running=running, claims=claims),),
        annotations=annotations or {},
    )


def ended(pod: NodePod) -> NodePod:
    """Return *pod* when none of its containers runs any more."""
    return replace(pod, containers=tuple(replace(each, running=False) for each in pod.containers))


def prepared_device(uuid: str = GPU, **changes: Any) -> PreparedDevice:
    """Return a share of a GPU of 3000 MiB and 30 %."""
    device = PreparedDevice(
        request="gpu",
        pool="node-1",
        device=uuid.lower(),
        share_id="share-1",
        uuid=GpuUuid(uuid),
        parent_uuid=GpuUuid(uuid),
        dedicated=False,
        admin=False,
        memory_mib=3000,
        cores_percent=30,
        shares=1,
    )
    return replace(device, **changes)


def claim(number: int = 1, *, priority: int | None = None, **changes: Any) -> PreparedClaim:
    """Return a prepared claim of the pod *number* for one share."""
    devices = changes.pop("devices", (prepared_device(),))
    found = PreparedClaim(
        uid=f"claim-{number}",
        namespace="team",
        name=f"claim-{number}",
        resource_version="1",
        allocation="digest",
        boot_id="boot",
        pod_uids=(pod_uid(number),),
        devices=devices,
        limits=tuple(
            GpuLimit(uuid=each.uuid, memory_mib=each.memory_mib, cores_percent=each.cores_percent)
            for each in devices
        ),
        options=LimitOptions(library_sha256="0" * 64, priority=priority),
    )
    return replace(found, **changes)


def live_region(path: Path, pid: int | None = None, name: str = "b_two_gpus_live") -> Path:
    """Put a region at *path* whose first slot is that of a living process."""
    placed(name, path)
    pid = os.getpid() if pid is None else pid
    poke(path, V1_2.slots, pid)
    poke(path, V1_2.slots + 4, pid)
    return path


def usage(uuid: str = GPU, **changes: Any) -> GpuUsage:
    """Return what an idle GPU does."""
    idle = GpuUsage(
        uuid=GpuUuid(uuid),
        index=0,
        name="A10",
        memory_used_bytes=0,
        utilization_percent=0,
        memory_utilization_percent=0,
        processes=(),
        failures={},
    )
    return replace(idle, **changes)


def gpu_process(pid: int, memory_mib: int | None = 100) -> GpuProcess:
    """Return a process on a GPU."""
    memory = None if memory_mib is None else memory_mib * 2**20
    return GpuProcess(pid=pid, memory_bytes=memory)


@dataclass(slots=True)
class Events:
    """Keeps events."""

    said: list[tuple[Regarding, str, str]] = field(default_factory=list)

    def event(self, regarding: Regarding, type_: EventType, reason: str, message: str, /) -> None:
        """Note that this happened."""
        assert type_ == "Warning"
        self.said.append((regarding, reason, message))


@dataclass(slots=True)
class Node:
    """Everything that a monitor is given, to be changed while it looks."""

    root: Path
    pods: list[NodePod] | None = field(default_factory=list)
    claims: list[PreparedClaim] = field(default_factory=list)
    gpus: tuple[GpuUsage, ...] | GpuError = ()
    held: tuple[ContainerResources, ...] | None = ()
    """What kubelet says; `None` while it is away."""
    events: Events = field(default_factory=Events)
    now_s: float = NOW_S

    def sources(self) -> Sources:
        """Return what the monitor is given."""
        node = self

        class Kubelet:
            def containers(self) -> tuple[ContainerResources, ...]:
                if node.held is None:
                    raise PodResourcesError("kubelet's PodResources: UNAVAILABLE")
                return node.held

        class Gpus:
            def read(self) -> tuple[GpuUsage, ...]:
                if isinstance(node.gpus, GpuError):
                    raise node.gpus
                return node.gpus

        return Sources(
            pods=lambda: node.pods,
            claims=lambda: node.claims,
            claim_region=self.claim_region,
            plugin_regions=self.root / "plugin",
            plugin_resources=frozenset({"nvidia.com/gpu"}),
            pod_resources=Kubelet(),
            gpus=Gpus(),
        )

    def claim_region(self, uid: str) -> Path:
        """Return where the region of a claim is."""
        return self.root / "claims" / uid / "region.cache"

    def plugin_region(self, number: int = 1, container: str = "main") -> Path:
        """Return where the region of a container of the plugin's is."""
        owner = Owner(pod_uid(number), container)
        return self.root / "plugin" / directory_of(owner) / "region.cache"

    def monitor(self, **options: Any) -> Monitor:
        """Return a monitor of this node, which looks when it is told to."""
        return Monitor(
            self.sources(),
            node=NODE,
            recorder=self.events,
            options=MonitorOptions(**options),
            now_s=lambda: self.now_s,
        )

    def share(self, number: int = 1, *, priority: int | None = None) -> Path:
        """Add a running pod with a claim, and the region of its living process."""
        assert self.pods is not None
        self.pods.append(pod(number, claim=f"claim-{number}"))
        self.claims.append(claim(number, priority=priority))
        return live_region(self.claim_region(f"claim-{number}"))


class Series(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """Values by name and labels."""

    def of(self, name: str, **labels: str) -> list[float]:
        """Return the values of *name* with at least these labels."""
        wanted = set(labels.items())
        return [value for (each, has), value in self.items() if each == name and wanted <= has]

    def names(self) -> set[str]:
        """Return the names that have values."""
        return {name for name, _ in self}


def scraped(monitor: Monitor) -> Series:
    """Return what a Prometheus server reads from the monitor's endpoint."""
    registry = CollectorRegistry()
    registry.register(monitor.collector)
    text = generate_latest(registry).decode()
    found = Series()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} twice"
            found[key] = sample.value
    return found


def told(
    pod: str, container: str, ids: Mapping[str, Iterable[str]] | None = None
) -> ContainerResources:
    """Return what kubelet says of a container with devices of a device plugin."""
    return ContainerResources(
        namespace="team",
        pod=pod,
        container=container,
        device_ids={name: tuple(each) for name, each in (ids or {}).items()},
        claims=(),
    )


def looked(node: Node, **options: bool) -> Series:
    """Return what a scrape reads after one look."""
    monitor = node.monitor(feedback=False, **options)
    monitor.look()
    return scraped(monitor)
