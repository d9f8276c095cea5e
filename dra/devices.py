"""From what the node has to what the scheduler is offered: one device per GPU or MIG partition.

A shared GPU is one device with consumable capacities (KEP-5075), not one device per share. On such
a device every capacity is consumed, wholly so by a request that does not name it unless a policy
has a default; hence each has one: all of the memory, so that a bare request stays alone on the
GPU, no cores, so that a request for memory only can be joined by others, and one share. Who asks
for all shares stays alone, however little of the rest he takes. The ranges have no `max`: the value
bounds them, and the bytes of a slice are paid by every watcher.

Where the server does not keep these fields, or only one process may open the GPU, it is offered
whole. A GPU in MIG mode is not offered itself: nothing runs on it outside its partitions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dra.attributes import attributes_of
from dra.validation import check_device
from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, MigDevice
from gpu.names import (
    CAPACITY_CORES,
    CAPACITY_MEMORY,
    CAPACITY_SHARES,
    MODE_EXCLUSIVE,
    MODE_MIG,
    MODE_SHARED,
    device_name,
)
from gpu.refusal import Refusal, RefusedError
from kube.objects import JsonObject
from kube.quantity import whole

CAPACITY_MULTIPROCESSORS = "multiprocessors"

_MIB = 1 << 20
_ALL_CORES = "100"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPolicy:
    """How many claims may hold a share of one GPU at the same time."""

    shares_per_gpu: int = 10
    shares_by_uuid: Mapping[str, int] = field(default_factory=dict)
    """Other numbers for single GPUs, by UUID."""

    def shares_of(self, uuid: str) -> int:
        """Return the number for the GPU *uuid*."""
        return self.shares_by_uuid.get(uuid, self.shares_per_gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A GPU or MIG device of which something is to be said."""

    uuid: GpuUuid
    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The devices to publish, in the order in which the scheduler shall try them."""

    devices: tuple[JsonObject, ...]
    withheld: tuple[Noted, ...] = ()


def build_devices(inventory: Inventory, *, sharing_kept: bool, policy: SharingPolicy) -> Offer:
    """Return the offer for *inventory*; a device that breaks a rule is withheld, never another.

    *sharing_kept* tells whether the API server stores consumable capacities.
    """
    devices: list[JsonObject] = []
    withheld: list[Noted] = []
    names: set[str] = set()
    for gpu in sorted(inventory.gpus, key=lambda gpu: gpu.pci_bus_id):
        for uuid, mig in _parts(gpu):
            try:
                device = _device(gpu, mig, policy if sharing_kept else None)
                check_device(device)
                _check_unique(device, names)
            except RefusedError as error:
                withheld.append(Noted(uuid=uuid, refusal=error.refusal))
            else:
                devices.append(device)
    return Offer(devices=tuple(devices), withheld=tuple(withheld))


def _parts(gpu: Gpu) -> Iterator[tuple[GpuUuid, MigDevice | None]]:
    if not gpu.mig_enabled:
        yield gpu.uuid, None
        return
    order = sorted(gpu.mig_devices, key=lambda mig: (mig.gpu_instance_id, mig.compute_instance_id))
    for mig in order:
        yield mig.uuid, mig


def _device(gpu: Gpu, mig: MigDevice | None, policy: SharingPolicy | None) -> JsonObject:
    if gpu.compute_mode is ComputeMode.PROHIBITED:
        raise RefusedError(
            Refusal(
                code="ComputeModeProhibited",
                field="computeMode",
                value=gpu.compute_mode.value,
                limit=f"no process may use GPU {gpu.uuid}",
                remedy="set its compute mode with `nvidia-smi -c DEFAULT`",
            )
        )
    if mig is not None:
        return _mig(gpu, mig)
    alone = gpu.compute_mode is ComputeMode.EXCLUSIVE_PROCESS
    if policy is None or alone or gpu.memory_mib is None:
        return _exclusive(gpu)
    return _shared(gpu, gpu.memory_mib, policy.shares_of(gpu.uuid))


def _shared(gpu: Gpu, memory_mib: int, shares: int) -> JsonObject:
    memory = _mib(memory_mib)
    return {
        "name": device_name(gpu.uuid),
        "allowMultipleAllocations": True,
        "attributes": attributes_of(gpu, MODE_SHARED),
        "capacity": {
            CAPACITY_MEMORY: {
                "value": memory,
                "requestPolicy": {
                    "default": memory,
                    "validRange": {"min": _mib(1), "step": _mib(1)},
                },
            },
            CAPACITY_CORES: {
                "value": _ALL_CORES,
                "requestPolicy": {
                    "default": "0",
                    "validRange": {"min": "0", "step": "1"},
                },
            },
            CAPACITY_SHARES: {
                "value": whole(shares).canonical(),
                "requestPolicy": {
                    "default": "1",
                    "validRange": {"min": "1", "step": "1"},
                },
            },
        },
    }


def _exclusive(gpu: Gpu) -> JsonObject:
    capacity: JsonObject = {}
    if gpu.memory_mib is not None:
        capacity[CAPACITY_MEMORY] = {"value": _mib(gpu.memory_mib)}
    capacity[CAPACITY_CORES] = {"value": _ALL_CORES}
    capacity[CAPACITY_SHARES] = {"value": "1"}
    return {
        "name": device_name(gpu.uuid),
        "attributes": attributes_of(gpu, MODE_EXCLUSIVE),
        "capacity": capacity,
    }


def _mig(gpu: Gpu, mig: MigDevice) -> JsonObject:
    return {
        "name": device_name(mig.uuid),
        "attributes": attributes_of(gpu, MODE_MIG, mig),
        "capacity": {
            CAPACITY_MEMORY: {"value": _mib(mig.memory_mib)},
            CAPACITY_MULTIPROCESSORS: {"value": whole(mig.multiprocessors).canonical()},
        },
    }


def _mib(memory_mib: int) -> str:
    return whole(memory_mib * _MIB, binary=True).canonical()


def _check_unique(device: JsonObject, names: set[str]) -> None:
    name = device["name"]
    if name in names:
        raise RefusedError(
            Refusal(
                code="DuplicateDevice",
                field="name",
                value=name,
                limit="another device of this node has the same UUID",
            )
        )
    names.add(name)
