"""Metrics of what containers use, made of the newest scan at each scrape.

A scrape asks nobody: one that takes long, or fails with one GPU, would leave the endpoint empty. It
looks again at one thing only, which pods still run, so that the series of a pod that has ended are
gone with the next scrape. How old the scan is stands beside it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpu.usage import Figure, GpuUsage
from hami.monitor.excess import device_of, uses
from hami.monitor.families import Families
from hami.monitor.haminames import hami_families
from hami.monitor.holders import HeldDevice, Holder, Mode
from hami.monitor.pods import NodePod
from hami.monitor.regions.model import Region, Trouble, Unreadable
from hami.monitor.sources import GpuOwner, Look, Snapshot

_MIB: Final = 2**20
_SHARE: Final = ("namespace", "pod", "container", "claim", "share_id", "uuid")
_CONTAINER: Final = ("namespace", "pod", "container", "claim")

FAMILIES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (
        "gpuslice_gpu_allocation_info",
        "A GPU, or a part of it, that a running container holds.",
        (*_SHARE, "gpu_uuid", "mode"),
    ),
    ("gpuslice_share_memory_granted_bytes", "Memory that was granted.", _SHARE),
    ("gpuslice_share_cores_granted_percent", "Compute that was granted.", _SHARE),
    ("gpuslice_share_memory_limit_bytes", "Memory that the library allows.", _SHARE),
    ("gpuslice_share_memory_used_bytes", "Memory that the library has counted.", _SHARE),
    (
        "gpuslice_share_memory_above_grant_bytes",
        "Memory used beyond the grant, by the library's count or the driver's.",
        _SHARE,
    ),
    ("gpuslice_share_utilization_percent", "How busy the container keeps the GPU.", _SHARE),
    ("gpuslice_share_processes", "Processes that the library has a slot for.", _CONTAINER),
    (
        "gpuslice_share_last_kernel_timestamp_seconds",
        "When the container has launched a kernel.",
        _CONTAINER,
    ),
    ("gpuslice_share_blocked", "1 while launches wait for a higher priority.", _CONTAINER),
    (
        "gpuslice_share_core_limit_enforced",
        "1 while a core limit holds, 0 while the container has the GPU to itself.",
        _CONTAINER,
    ),
    (
        "gpuslice_priority_without_effect",
        "1 while a container should wait and cannot, for want of a core limit.",
        _CONTAINER,
    ),
    ("gpuslice_region_read_success", "Whether the container's region says anything.", _CONTAINER),
    ("gpuslice_gpu_memory_used_bytes", "Memory used, of all its users.", ("uuid",)),
    ("gpuslice_gpu_utilization_percent", "How busy the GPU is.", ("uuid",)),
    ("gpuslice_gpu_memory_utilization_percent", "How busy its memory is.", ("uuid",)),
    ("gpuslice_gpu_processes", "Processes on the GPU, by whose they are.", ("uuid", "owner")),
    ("gpuslice_gpu_stray_memory_bytes", "Memory of those that hold no part of it.", ("uuid",)),
    (
        "gpuslice_gpu_collect_success",
        "Whether the driver has answered for a figure of the GPU.",
        ("uuid", "figure"),
    ),
    ("gpuslice_monitor_source_success", "Whether a source of these figures answers.", ("source",)),
    ("gpuslice_monitor_scan_timestamp_seconds", "When these figures were taken.", ()),
    ("gpuslice_value_source_info", "Where a figure comes from.", ("figure", "source")),
)
_SOURCES: Final = (
    ("gpuslice_share_memory_used_bytes", "region"),
    ("gpuslice_share_memory_limit_bytes", "region"),
    ("gpuslice_share_utilization_percent", "region"),
    ("gpuslice_share_memory_granted_bytes", "grant"),
    ("gpuslice_share_memory_above_grant_bytes", "region and nvml"),
    ("gpuslice_gpu_memory_used_bytes", "nvml"),
    ("gpuslice_gpu_utilization_percent", "nvml"),
    ("gpuslice_gpu_processes", "nvml"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Which names the metrics have beside ours."""

    node: str
    hami: bool = True
    legacy: bool = False


class UsageCollector(Collector):
    """Makes the metrics of *snapshot*."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        *,
        pods: Callable[[], Iterable[NodePod] | None],
        waiting: Callable[[], frozenset[Path]],
        without_effect: Callable[[], frozenset[Path]],
        names: Names,
    ) -> None:
        self._snapshot = snapshot
        self._pods = pods
        self._waiting = waiting
        self._without_effect = without_effect
        self._names = names

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Say nothing, so that registering does not collect."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges of the newest scan; none before the first."""
        snapshot = self._snapshot()
        if snapshot is None:
            return
        looks = self._shown(snapshot)
        families = Families()
        for name, text, labels in FAMILIES:
            families.declare(name, text, labels)
        for look in looks:
            _allocations(families, look)
            _container(families, look, self._waiting(), self._without_effect())
        shown = {id(look.holder) for look in looks}
        for use in uses(snapshot):
            if id(use.holder) in shown:
                labels = _share_labels(use.holder, use.device)
                families.add("gpuslice_share_memory_above_grant_bytes", labels, use.above_bytes)
        for gpu in snapshot.gpus:
            _gpu(families, gpu, snapshot)
        for asked, worked in snapshot.success.items():
            families.add("gpuslice_monitor_source_success", (asked,), worked)
        for figure, source in _SOURCES:
            families.add("gpuslice_value_source_info", (figure, source), 1)
        families.add("gpuslice_monitor_scan_timestamp_seconds", (), snapshot.taken_s)
        yield from families
        if self._names.hami:
            names = self._names
            yield from hami_families(snapshot, looks, node=names.node, legacy=names.legacy)

    def _shown(self, snapshot: Snapshot) -> list[Look]:
        """Return the containers that ran when they were looked at and still do."""
        looks = [look for look in snapshot.looks if look.holder.running]
        pods = self._pods()
        if pods is None:
            return looks
        running = {(pod.uid, each.name) for pod in pods for each in pod.containers if each.running}
        return [look for look in looks if (look.holder.pod.uid, look.holder.container) in running]


def _container_labels(holder: Holder) -> tuple[str, ...]:
    return (holder.pod.namespace, holder.pod.name, holder.container, holder.claim)


def _share_labels(holder: Holder, device: HeldDevice) -> tuple[str, ...]:
    return (*_container_labels(holder), device.share_id, device.uuid)


def _allocations(families: Families, look: Look) -> None:
    for device in look.holder.devices:
        labels = _share_labels(look.holder, device)
        families.add("gpuslice_gpu_allocation_info", (*labels, device.parent_uuid, device.mode), 1)
        if device.mode is Mode.SHARE:
            memory = None if device.memory_mib is None else device.memory_mib * _MIB
            families.add("gpuslice_share_memory_granted_bytes", labels, memory)
            families.add("gpuslice_share_cores_granted_percent", labels, device.cores_percent)
        _used(families, look.region, labels, device)


def _used(
    families: Families,
    region: Region | Unreadable | None,
    labels: tuple[str, ...],
    device: HeldDevice,
) -> None:
    if isinstance(region, Unreadable) and region.trouble is Trouble.UNUSED:
        # Nobody has used it yet, which is known.
        families.add("gpuslice_share_memory_used_bytes", labels, 0)
    found = device_of(region, device.uuid)
    if found is None or not isinstance(region, Region):
        return
    families.add("gpuslice_share_memory_limit_bytes", labels, found.memory_limit_bytes)
    families.add("gpuslice_share_memory_used_bytes", labels, region.used_bytes(found.index))
    families.add(
        "gpuslice_share_utilization_percent", labels, region.utilization_percent(found.index)
    )


def _container(
    families: Families, look: Look, waiting: frozenset[Path], without_effect: frozenset[Path]
) -> None:
    region, labels = look.region, _container_labels(look.holder)
    if region is None:
        return
    if isinstance(region, Unreadable):
        is_expected = region.trouble in {Trouble.UNUSED, Trouble.BUSY}
        families.add("gpuslice_region_read_success", labels, is_expected)
        return
    families.add("gpuslice_region_read_success", labels, value=True)
    families.add("gpuslice_share_processes", labels, len(region.processes))
    families.add("gpuslice_share_last_kernel_timestamp_seconds", labels, region.last_kernel_s)
    if any(each.is_core_limited for each in region.devices):
        families.add("gpuslice_share_blocked", labels, look.holder.region in waiting)
        families.add("gpuslice_share_core_limit_enforced", labels, region.utilization_switch != 0)
    if look.holder.region in without_effect:
        families.add("gpuslice_priority_without_effect", labels, value=True)


def _gpu(families: Families, gpu: GpuUsage, snapshot: Snapshot) -> None:
    labels = (gpu.uuid,)
    families.add("gpuslice_gpu_memory_used_bytes", labels, gpu.memory_used_bytes)
    families.add("gpuslice_gpu_utilization_percent", labels, gpu.utilization_percent)
    families.add("gpuslice_gpu_memory_utilization_percent", labels, gpu.memory_utilization_percent)
    for figure in Figure:
        families.add("gpuslice_gpu_collect_success", (gpu.uuid, figure), figure not in gpu.failures)
    if gpu.processes is None:
        return
    workers = [each for each in snapshot.workers if each.gpu_uuid == gpu.uuid]
    for owner in GpuOwner:
        number = sum(each.owner is owner for each in workers)
        families.add("gpuslice_gpu_processes", (gpu.uuid, owner), number)
    memory = [each.memory_bytes for each in workers if each.owner is GpuOwner.STRAY]
    known = [each for each in memory if each is not None]
    if len(known) == len(memory):
        families.add("gpuslice_gpu_stray_memory_bytes", labels, sum(known))
