"""Values that the tests of prepare are about, small enough to be read in one glance."""

from collections.abc import Mapping
from typing import Any

from cdi.edits import ContainerEdits, DeviceNode
from cdi.library import HookLibrary
from dra.allocation import AllocatedDevice, Allocation, ConfigEntry
from dra.node import NodeView
from dra.record import GpuLimit, LimitOptions, PreparedClaim, PreparedDevice
from dra.render import SpecRenderer
from gpu import names
from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, MigDevice, PciBusId

NODE = "node-1"
BOOT_ID = "0b5d0c6e-0000-4000-8000-000000000001"
UID = "c1a10000-0000-4000-8000-000000000001"
MIB = 2**20
LIBRARY = HookLibrary(
    host_library_path="/opt/hami/libvgpu.so",
    host_preload_path="/opt/hami/ld.so.preload",
    sha256="5" * 64,
    placeholder=True,
)


def a_gpu(number: int = 0, **changes: Any) -> Gpu:
    """Return GPU *number* of a node: 16000 MiB, its bus rising with the number."""
    values: dict[str, Any] = {
        "uuid": GpuUuid(f"GPU-00000000-0000-4000-8000-{number:012x}"),
        "pci_bus_id": PciBusId(f"0000:{number + 16:02x}:00.0"),
        "minor": number,
        "name": "NVIDIA L4",
        "brand": "Nvidia",
        "architecture": "Ada",
        "memory_mib": 16000,
        "memory_reserved_mib": 500,
        "compute_capability": "8.9",
        "driver_version": "580.65.06",
        "cuda_driver_version": "13.0",
        "numa_node": 0,
        "pcie_root": "pci0000:00",
        "mig_enabled": False,
        "compute_mode": ComputeMode.DEFAULT,
    }
    return Gpu(**values | changes)


def a_mig_gpu(number: int = 0, partitions: int = 2) -> Gpu:
    """Return a GPU in MIG mode with *partitions* of 4000 MiB."""
    gpu = a_gpu(number)
    devices = tuple(
        MigDevice(
            uuid=GpuUuid(f"MIG-00000000-0000-4000-8000-{number:06x}{index:06x}"),
            parent_uuid=gpu.uuid,
            profile="1g.4gb",
            gpu_instance_id=7 + index,
            compute_instance_id=0,
            memory_mib=4000,
            multiprocessors=14,
        )
        for index in range(partitions)
    )
    return a_gpu(number, mig_enabled=True, mig_devices=devices)


def an_inventory(*gpus: Gpu) -> Inventory:
    """Return the inventory of a node with *gpus*."""
    in_order = tuple(sorted(gpus, key=lambda gpu: gpu.pci_bus_id))
    return Inventory(driver_version="580.65.06", cuda_driver_version="13.0", gpus=in_order)


def a_view(*gpus: Gpu, library: HookLibrary | None = LIBRARY) -> NodeView:
    """Return what a node with *gpus* looks like to prepare."""
    inventory = an_inventory(*gpus)
    partitions = [mig.uuid for gpu in gpus for mig in gpu.mig_devices]
    edits = {
        uuid: ContainerEdits(
            device_nodes=(
                DeviceNode(path=f"/dev/{uuid}", type="c", major=195, minor=0, permissions="rw"),
            )
        )
        for uuid in [gpu.uuid for gpu in gpus] + partitions
    }
    return NodeView(
        inventory=inventory,
        renderer=SpecRenderer(
            common=ContainerEdits(env=("NVIDIA_VISIBLE_DEVICES=void",)),
            by_uuid=edits,
            library=lambda _sha256: LIBRARY,
            region_host_path=lambda uid: f"/host/regions/{uid}/region.cache",
        ),
        library=library,
        library_problem="" if library else "no HAMi-core library is configured",
    )


def consumed(memory: str, cores: str = "0", shares: str = "1") -> dict[str, str]:
    """Return `consumedCapacity` as the scheduler writes it."""
    return {"memory": memory, "cores": cores, "shares": shares}


def a_share(gpu: Gpu, memory: str = "1000Mi", cores: str = "0", **changes: Any) -> AllocatedDevice:
    """Return the allocation of a share of *gpu*."""
    values: dict[str, Any] = {
        "request": "gpu",
        "pool": NODE,
        "device": names.device_name(gpu.uuid),
        "share_id": "5a5a0000-0000-4000-8000-000000000001",
        "admin": False,
        "consumed": consumed(memory, cores),
        "device_class": names.CLASS_SHARE,
    }
    return AllocatedDevice(**values | changes)


def a_whole(device: Gpu | MigDevice, **changes: Any) -> AllocatedDevice:
    """Return the allocation of a device that nobody shares."""
    values: dict[str, Any] = {
        "request": "gpu",
        "pool": NODE,
        "device": names.device_name(device.uuid),
        "share_id": None,
        "admin": False,
        "consumed": None,
        "device_class": names.CLASS_WHOLE,
    }
    return AllocatedDevice(**values | changes)


def a_config(*requests: str, from_class: bool = False, **fields: Any) -> ConfigEntry:
    """Return a `ShareConfig` for *requests* (none: for all) with *fields* set."""
    parameters = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", **fields}
    return ConfigEntry(from_class=from_class, requests=requests, parameters=parameters)


def an_allocation(
    *devices: AllocatedDevice, configs: tuple[ConfigEntry, ...] = (), **changes: Any
) -> Allocation:
    """Return what a claim was given."""
    values: dict[str, Any] = {
        "uid": UID,
        "namespace": "team-a",
        "name": "claim",
        "resource_version": "7",
        "devices": devices,
        "configs": configs,
        "pod_uids": frozenset(),
        "digest": "d1",
    }
    return Allocation(**values | changes)


def a_held(device: Gpu | MigDevice, **changes: Any) -> PreparedDevice:
    """Return a prepared share of a GPU (1000 MiB, no cores), or a MIG device."""
    partition = isinstance(device, MigDevice)
    values: dict[str, Any] = {
        "request": "gpu",
        "pool": NODE,
        "device": names.device_name(device.uuid),
        "share_id": None if partition else "5a5a0000-0000-4000-8000-000000000001",
        "uuid": device.uuid,
        "parent_uuid": device.parent_uuid if isinstance(device, MigDevice) else device.uuid,
        "dedicated": partition,
        "admin": False,
        "memory_mib": 1000,
        "cores_percent": 0,
        "shares": 1,
    }
    return PreparedDevice(**values | changes)


def a_record(number: int = 0, *devices: PreparedDevice, **changes: Any) -> PreparedClaim:
    """Return the record of claim *number*."""
    values: dict[str, Any] = {
        "uid": f"c1a10000-0000-4000-8000-{number:012x}",
        "namespace": "team-a",
        "name": f"claim-{number}",
        "resource_version": "7",
        "allocation": f"digest-{number}",
        "boot_id": BOOT_ID,
        "devices": devices or (a_held(a_gpu()),),
    }
    return PreparedClaim(**values | changes)


def a_limited_record(number: int = 0, **changes: Any) -> PreparedClaim:
    """Return the record of a claim whose share is limited."""
    limit = GpuLimit(uuid=a_gpu().uuid, memory_mib=1000, cores_percent=100)
    options = LimitOptions(library_sha256=LIBRARY.sha256)
    return a_record(number, **{"limits": (limit,), "options": options} | changes)


def a_result(gpu: Gpu, memory: str | None = "1000Mi", **changes: Any) -> dict[str, Any]:
    """Return an allocation result in JSON: a share, or a whole device without *memory*."""
    result: dict[str, Any] = {
        "request": "gpu",
        "driver": names.DRIVER,
        "pool": NODE,
        "device": names.device_name(gpu.uuid),
    }
    if memory is not None:
        result["shareID"] = "5a5a0000-0000-4000-8000-000000000001"
        result["consumedCapacity"] = consumed(memory)
    return result | changes


def a_claim(*results: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a ResourceClaim in JSON that was given *results*; *changes* are metadata."""
    metadata = {"name": "claim", "namespace": "team-a", "uid": UID, "resourceVersion": "7"}
    shared = any("consumedCapacity" in result for result in results)
    exactly = {"deviceClassName": names.CLASS_SHARE if shared else names.CLASS_WHOLE}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata | changes,
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": list(results)}},
            "reservedFor": [{"resource": "pods", "name": "pod", "uid": "pod-uid"}],
        },
    }
