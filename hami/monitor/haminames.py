"""HAMi's metrics of the monitor, under its names and labels, for dashboards that exist.

Names, labels and units are HAMi's (HAMi v2.10: cmd/vGPUmonitor/metrics.go): what it calls a ratio
is a percentage, and all have `zone="vGPU"`. The older names are there by a setting, as they are
there, but for one that has amounts of memory in its labels, where each amount is a new series: it
has its value and no such labels. Values are ours: what is not known is absent, and only running
containers are named.
"""

from collections.abc import Iterable
from typing import Final

from gpu.usage import GpuUsage
from hami.monitor.families import Families
from hami.monitor.holders import Mode
from hami.monitor.regions.model import Region, RegionDevice
from hami.monitor.sources import Look, Snapshot

_ZONE: Final = (("zone", "vGPU"),)
_HOST: Final = ("node", "device_index", "device_uuid", "device_type")
_SHARE: Final = ("namespace", "pod", "container", "vdevice_index", "device_uuid")
_MIG: Final = (*_SHARE, "mig_uuid", "profile", "gpu_instance_id", "compute_instance_id")
_OLD_HOST: Final = ("nodeid", "deviceidx", "deviceuuid", "devicetype")
_OLD_SHARE: Final = ("podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")

NEW: Final = (
    ("hami_host_gpu_memory_used_bytes", "Memory used of a GPU.", _HOST),
    ("hami_host_gpu_utilization_ratio", "Utilisation of a GPU in percent.", _HOST),
    (
        "hami_host_gpu_memory_controller_utilization_ratio",
        "Utilisation of the memory of a GPU in percent.",
        _HOST[1:],
    ),
    ("hami_vgpu_memory_used_bytes", "Memory that a container uses of a GPU.", _SHARE),
    ("hami_vgpu_memory_limit_bytes", "Memory that a container may use of a GPU.", _SHARE),
    ("hami_container_device_memory_bytes", "Memory that a container uses of a GPU.", _SHARE),
    (
        "hami_container_device_utilization_ratio",
        "Utilisation of a GPU by a container in percent.",
        _SHARE,
    ),
    ("hami_vgpu_memory_context_bytes", "Memory of contexts.", _SHARE),
    ("hami_vgpu_memory_module_bytes", "Memory of modules.", _SHARE),
    ("hami_vgpu_memory_buffer_bytes", "Memory of buffers.", _SHARE),
    (
        "hami_container_last_kernel_elapsed_seconds",
        "Time since the container has launched a kernel.",
        _SHARE,
    ),
    ("hami_mig_device_info", "A MIG device that a container was given.", _MIG),
)
OLD: Final = (
    ("HostGPUMemoryUsage", "Memory used of a GPU.", _OLD_HOST),
    ("HostCoreUtilization", "Utilisation of a GPU in percent.", _OLD_HOST),
    ("vGPU_device_memory_usage_in_bytes", "Memory that a container uses of a GPU.", _OLD_SHARE),
    ("vGPU_device_memory_limit_in_bytes", "Memory that a container may use.", _OLD_SHARE),
    ("Device_memory_desc_of_container", "Memory that a container uses of a GPU.", _OLD_SHARE),
    (
        "Device_utilization_desc_of_container",
        "Utilisation of a GPU by a container in percent.",
        _OLD_SHARE,
    ),
    ("Device_last_kernel_of_container", "Time since the last kernel in seconds.", _OLD_SHARE),
    ("MigInfo", "A MIG device that a container was given.", (*_OLD_SHARE, "instanceid")),
)


def hami_families(
    snapshot: Snapshot, looks: Iterable[Look], *, node: str, legacy: bool
) -> Families:
    """Return HAMi's metrics of the *looks* that are to be shown."""
    families = Families(_ZONE)
    for name, text, labels in (*NEW, *(OLD if legacy else ())):
        families.declare(name, text, labels)
    for gpu in snapshot.gpus:
        _host(families, gpu, node, legacy=legacy)
    for look in looks:
        if isinstance(look.region, Region):
            for device in look.region.devices:
                _share(families, look, look.region, device, snapshot.taken_s)
                if legacy:
                    _old_share(families, look, look.region, device, snapshot.taken_s)
        _mig(families, look, legacy=legacy)
    return families


def _host(families: Families, gpu: GpuUsage, node: str, *, legacy: bool) -> None:
    if gpu.index is None or gpu.name is None:
        return
    labels = (node, str(gpu.index), gpu.uuid, f"NVIDIA-{gpu.name}")
    families.add("hami_host_gpu_memory_used_bytes", labels, gpu.memory_used_bytes)
    families.add("hami_host_gpu_utilization_ratio", labels, gpu.utilization_percent)
    families.add(
        "hami_host_gpu_memory_controller_utilization_ratio",
        labels[1:],
        gpu.memory_utilization_percent,
    )
    if legacy:
        families.add("HostGPUMemoryUsage", labels, gpu.memory_used_bytes)
        families.add("HostCoreUtilization", labels, gpu.utilization_percent)


def _labels(look: Look, index: int, uuid: str) -> tuple[str, ...]:
    pod = look.holder.pod
    return (pod.namespace, pod.name, look.holder.container, str(index), uuid)


def _elapsed_s(region: Region, now_s: float) -> float | None:
    return None if region.last_kernel_s is None else max(0, int(now_s) - region.last_kernel_s)


def _share(
    families: Families, look: Look, region: Region, device: RegionDevice, now_s: float
) -> None:
    labels = _labels(look, device.index, device.uuid)
    used = region.used_bytes(device.index)
    families.add("hami_vgpu_memory_used_bytes", labels, used)
    families.add("hami_container_device_memory_bytes", labels, used)
    families.add("hami_vgpu_memory_limit_bytes", labels, device.memory_limit_bytes)
    families.add(
        "hami_container_device_utilization_ratio", labels, region.utilization_percent(device.index)
    )
    families.add("hami_container_last_kernel_elapsed_seconds", labels, _elapsed_s(region, now_s))
    uses = region.uses(device.index)
    if uses is not None:
        for kind, values in (
            ("context", [each.context_bytes for each in uses]),
            ("module", [each.module_bytes for each in uses]),
            ("buffer", [each.data_bytes for each in uses]),
        ):
            families.add(f"hami_vgpu_memory_{kind}_bytes", labels, sum(values))


def _old_share(
    families: Families, look: Look, region: Region, device: RegionDevice, now_s: float
) -> None:
    labels = _labels(look, device.index, device.uuid)
    used = region.used_bytes(device.index)
    families.add("vGPU_device_memory_usage_in_bytes", labels, used)
    families.add("vGPU_device_memory_limit_in_bytes", labels, device.memory_limit_bytes)
    families.add(
        "Device_utilization_desc_of_container", labels, region.utilization_percent(device.index)
    )
    families.add("Device_last_kernel_of_container", labels, _elapsed_s(region, now_s))
    families.add("Device_memory_desc_of_container", labels, used)


def _mig(families: Families, look: Look, *, legacy: bool) -> None:
    for index, device in enumerate(look.holder.devices):
        instance = device.instance
        if device.mode is not Mode.MIG or instance is None:
            continue
        labels = _labels(look, index, device.parent_uuid)
        ids = (str(instance.gpu_instance_id), str(instance.compute_instance_id))
        families.add("hami_mig_device_info", (*labels, device.uuid, instance.profile, *ids), 1)
        if legacy:
            families.add("MigInfo", (*labels, ids[0]), 1)
