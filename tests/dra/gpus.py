"""Inventories as NVML could tell them, for the tests of what is published."""

from dataclasses import replace
from typing import Any

from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, MigDevice, PciBusId

GPU = Gpu(
    uuid=GpuUuid("GPU-d0000000-0000-4000-8000-000000000000"),
    pci_bus_id=PciBusId("0000:03:00.0"),
    minor=0,
    name="NVIDIA H100 80GB HBM3",
    brand="Nvidia",
    architecture="Hopper",
    memory_mib=81559,
    memory_reserved_mib=551,
    compute_capability="9.0",
    driver_version="580.65.06",
    cuda_driver_version="13.0",
    numa_node=1,
    pcie_root="pci0000:00",
    mig_enabled=False,
    compute_mode=ComputeMode.DEFAULT,
)
MIG = MigDevice(
    uuid=GpuUuid("MIG-d0000000-0000-4000-8000-000000000003"),
    parent_uuid=GPU.uuid,
    profile="1g.10gb",
    gpu_instance_id=7,
    compute_instance_id=0,
    memory_mib=9856,
    multiprocessors=16,
)


def many_gpus(count: int, **changes: Any) -> tuple[Gpu, ...]:
    """Return *count* GPUs on buses in order, with *changes* to each."""
    return tuple(
        replace(
            GPU,
            uuid=GpuUuid(f"GPU-e0000000-0000-4000-8000-{index:012x}"),
            pci_bus_id=PciBusId(f"{index >> 8:04x}:{index & 255:02x}:00.0"),
            **changes,
        )
        for index in range(count)
    )


def inventory_of(*gpus: Gpu) -> Inventory:
    """Return the inventory of a node with *gpus*, in this order."""
    return Inventory(driver_version="580.65.06", cuda_driver_version="13.0", gpus=gpus)
