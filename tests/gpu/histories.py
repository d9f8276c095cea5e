"""Readings, faults and XIDs of GPUs, and what is known of their health after these."""

from collections.abc import Mapping
from dataclasses import replace

from gpu.health import History, Reading, XidEvent
from gpu.model import Gpu, GpuFault, GpuUuid, Inventory
from tests.dra.gpus import GPU, MIG, many_gpus

A, B = (gpu.uuid for gpu in many_gpus(2))
FIRST, SECOND = GpuUuid("MIG-1"), GpuUuid("MIG-2")
PARTITIONED = replace(
    GPU,
    mig_enabled=True,
    mig_devices=(
        replace(MIG, uuid=FIRST, gpu_instance_id=7, compute_instance_id=0),
        replace(MIG, uuid=SECOND, gpu_instance_id=7, compute_instance_id=1),
    ),
)
RECOVERY_S = 60.0


def reading(
    *gpus: Gpu,
    actions: Mapping[GpuUuid, int | None] | None = None,
    faults: tuple[GpuFault, ...] = (),
    driver: str = "580.1",
) -> Reading:
    """Return a reading of *gpus*, for which the driver advises nothing unless *actions* say."""
    return Reading(
        inventory=Inventory(
            driver_version=driver, cuda_driver_version="13.0", gpus=gpus, faults=faults
        ),
        actions={gpu.uuid: 0 for gpu in gpus} | dict(actions or {}),
    )


def fault(uuid: GpuUuid | None, reason: str) -> GpuFault:
    """Return a fault of a GPU."""
    return GpuFault(index=0, uuid=uuid, pci_bus_id=None, reason=reason, call="nvmlDeviceGetName")


def xid(number: int, uuid: GpuUuid | None = A, **instance: int) -> XidEvent:
    """Return an event."""
    return XidEvent(
        gpu_uuid=uuid,
        xid=number,
        gpu_instance_id=instance.get("gpu_instance"),
        compute_instance_id=instance.get("compute_instance"),
    )


def after(history: History, seen: Reading, *events: XidEvent, now_s: float = 0.0) -> History:
    """Return what is known after *seen* and *events*."""
    return history.after(seen, events, now_s=now_s, recovery_s=RECOVERY_S)


def codes(history: History, seen: Reading) -> list[tuple[str, str]]:
    """Return what ails which device."""
    return [(each.uuid, each.code) for each in history.diagnosed(seen.inventory).ailments]
