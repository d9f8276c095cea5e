"""What a GPU is to every program here: plain values, no I/O.

Memory is whole MiB and compute is whole percent of one GPU; there are no floats, so that sums
over shares are exact. Identity is NVML's UUID: indexes and minor numbers move when a GPU fails
or a node reboots. Order is the PCI bus id everywhere, because that is the order in which a
container sees its devices once `CUDA_DEVICE_ORDER=PCI_BUS_ID` is set.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

GpuUuid = NewType("GpuUuid", str)
"""NVML's text, such as `GPU-1b2c...` or `MIG-9f8e...`."""

PciBusId = NewType("PciBusId", str)
"""Lower case `dddd:bb:dd.f`, as sysfs writes it; sorts in bus order."""


class ComputeMode(StrEnum):
    """Who may open a context on a GPU (`nvidia-smi -c`)."""

    DEFAULT = "default"
    EXCLUSIVE_PROCESS = "exclusive-process"
    PROHIBITED = "prohibited"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    """A hardware partition of a GPU: one compute instance in one GPU instance."""

    uuid: GpuUuid
    parent_uuid: GpuUuid
    profile: str
    """NVIDIA's name without the `MIG ` in front, such as `1g.5gb` or `1g.5gb+me`."""
    gpu_instance_id: int
    compute_instance_id: int
    memory_mib: int
    multiprocessors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One physical GPU as the driver reports it."""

    uuid: GpuUuid
    pci_bus_id: PciBusId
    minor: int
    """The number in `/dev/nvidia<minor>`: not NVML's index, and not stable over reboots."""
    name: str
    brand: str
    architecture: str
    memory_mib: int | None
    """Total rounded down; `None` where the GPU has no memory of its own (unified memory)."""
    memory_reserved_mib: int
    """Part of the total that the driver keeps; 0 where it does not say."""
    compute_capability: str
    """`major.minor`."""
    driver_version: str
    cuda_driver_version: str
    """`major.minor`: the newest CUDA that this driver supports."""
    numa_node: int | None
    pcie_root: str | None
    """Such as `pci0000:00`; `None` where sysfs does not show one."""
    mig_enabled: bool
    compute_mode: ComputeMode
    mig_devices: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFault:
    """A GPU that could not be read, so that the others can be used and this one be named."""

    index: int
    """NVML's index at the time of the scan: for the message, never an identity."""
    uuid: GpuUuid | None
    pci_bus_id: PciBusId | None
    reason: str
    """NVML's error as a stable word, such as `GPU_IS_LOST`."""
    call: str
    """The NVML function that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
    """Why a GPU or MIG device that can be read should get no new work."""

    uuid: GpuUuid
    """What is about a GPU is about each of its MIG devices too, and is said once."""
    code: str
    """A stable word such as `Xid79`, at most 63 letters and digits: it becomes a taint's value."""
    message: str
    """One sentence in ASCII, at most 200 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The GPUs of a node at one moment; *gpus* is sorted by PCI bus id."""

    driver_version: str
    cuda_driver_version: str
    gpus: tuple[Gpu, ...]
    faults: tuple[GpuFault, ...] = ()
    ailments: tuple[Ailment, ...] = ()
    """Sorted by UUID and code; several may be about one device."""
