"""The functions of `libnvidia-ml.so` that make, show and destroy GPU and compute instances.

Every GPU instance has one compute instance that fills it, or none yet. Those of the GPU file are
in use, as if a program ran on them: to destroy one answers `IN_USE`.
"""

import ctypes
import uuid
from collections.abc import Callable
from typing import Any, Final

from sim.hardware import MigInstance, SimGpu, instance_id
from sim.instancestore import Made
from sim.nvml_memory import NvmlFailureError, number, target, write, write_handle
from sim.nvml_node import Node, Target

_GPU_INSTANCE: Final = "gi"
_COMPUTE_INSTANCE: Final = "ci"
_COMPUTE_ENUMS: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}
"""NVML's number of the compute profile that fills an instance of so many slices."""


def create(node: Node, device: Target, profile: Any, placement: Any, result: Any) -> None:
    """Make a GPU instance at a place that must be free."""
    table = device.gpu.board.mig
    if table is None or device.gpu.entry.mig is None:
        raise NvmlFailureError("NOT_SUPPORTED")
    shape = next((each for each in table.profiles if each.id == number(profile)), None)
    place = target(placement)
    if shape is None or place.start not in shape.starts or place.size != shape.memory_slices:
        raise NvmlFailureError("INVALID_ARGUMENT")
    wanted = set(range(place.start, place.start + place.size))
    there = _all(device.gpu)
    alike = [each for each in there if each.profile is shape or each.profile.name == shape.name]
    if len(alike) >= shape.instances or any(wanted & _slices(each) for each in there):
        raise NvmlFailureError("INSUFFICIENT_RESOURCES")
    found = instance_id(table, shape, place.start)
    node.made.add(
        Made(gpu=device.gpu.uuid, profile=shape.name, start=place.start, gpu_instance_id=found)
    )
    write_handle(result, _handle(node, _GPU_INSTANCE, device.gpu, found))


def of_profile(node: Node, device: Target, profile: Any, array: Any, count: Any) -> None:
    """Answer with the GPU instances of one profile."""
    found = [each for each in _all(device.gpu) if each.profile.id == number(profile)]
    if len(found) > len(target(array)):
        raise NvmlFailureError("INSUFFICIENT_SIZE")
    for place, each in enumerate(found):
        handle = _handle(node, _GPU_INSTANCE, device.gpu, each.gpu_instance_id)
        _set_handle(target(array), place * ctypes.sizeof(ctypes.c_void_p), handle)
    write(count, len(found))


def by_id(node: Node, device: Target, wanted: Any, result: Any) -> None:
    """Answer with the GPU instance of a number."""
    found = _found(device.gpu, number(wanted))
    write_handle(result, _handle(node, _GPU_INSTANCE, device.gpu, found.gpu_instance_id))


def info(node: Node, gpu: SimGpu, instance: MigInstance, result: Any) -> None:
    """Answer with number, profile and place of a GPU instance."""
    filled = target(result)
    _set_handle(filled, type(filled).device.offset, node.handle(gpu.uuid))
    filled.id, filled.profileId = instance.gpu_instance_id, instance.profile.id
    filled.placement.start = instance.start
    filled.placement.size = instance.profile.memory_slices


def compute_profile(
    _node: Node, _gpu: SimGpu, instance: MigInstance, enum: Any, _engine: Any, result: Any
) -> None:
    """Answer with the compute profile that fills the instance, the only one there is here."""
    slices = instance.profile.slices
    if _COMPUTE_ENUMS.get(slices) != number(enum):
        raise NvmlFailureError("NOT_SUPPORTED")
    filled = target(result)
    filled.id, filled.sliceCount, filled.instanceCount = number(enum), slices, 1
    filled.multiprocessorCount = instance.profile.multiprocessors


def create_compute(
    node: Node, gpu: SimGpu, instance: MigInstance, _profile: Any, result: Any
) -> None:
    """Make the compute instance, by which the MIG device comes to be."""
    if instance.uuid:
        raise NvmlFailureError("INSUFFICIENT_RESOURCES")
    identity = f"MIG-{uuid.uuid4()}"
    node.made.change(gpu.uuid, instance.gpu_instance_id, uuid=identity)
    write_handle(result, _handle(node, _COMPUTE_INSTANCE, gpu, instance.gpu_instance_id))


def compute_by_id(node: Node, gpu: SimGpu, instance: MigInstance, wanted: Any, result: Any) -> None:
    """Answer with the compute instance of a number."""
    if not instance.uuid or number(wanted) != instance.compute_instance_id:
        raise NvmlFailureError("NOT_FOUND")
    write_handle(result, _handle(node, _COMPUTE_INSTANCE, gpu, instance.gpu_instance_id))


def destroy(node: Node, gpu: SimGpu, instance: MigInstance) -> None:
    """Destroy a GPU instance that has no compute instance."""
    if instance.uuid:
        raise NvmlFailureError("IN_USE")
    node.made.remove(gpu.uuid, instance.gpu_instance_id)


def compute_info(node: Node, gpu: SimGpu, instance: MigInstance, result: Any) -> None:
    """Answer with the number of a compute instance."""
    filled = target(result)
    _set_handle(filled, type(filled).device.offset, node.handle(gpu.uuid))
    filled.id = instance.compute_instance_id
    filled.profileId = _COMPUTE_ENUMS[instance.profile.slices]


def destroy_compute(node: Node, gpu: SimGpu, instance: MigInstance) -> None:
    """Destroy a compute instance, unless it is one of the GPU file."""
    if not any(each.uuid == instance.uuid for each in node.made.read()):
        raise NvmlFailureError("IN_USE")
    node.made.change(gpu.uuid, instance.gpu_instance_id, uuid="")


DEVICE: Final[dict[str, Callable[..., None]]] = {
    "nvmlDeviceCreateGpuInstanceWithPlacement": create,
    "nvmlDeviceGetGpuInstances": of_profile,
    "nvmlDeviceGetGpuInstanceById": by_id,
}
"""By the handle of a GPU."""
INSTANCE: Final[dict[str, Callable[..., None]]] = {
    "nvmlGpuInstanceGetInfo": info,
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": compute_profile,
    "nvmlGpuInstanceCreateComputeInstance": create_compute,
    "nvmlGpuInstanceGetComputeInstanceById": compute_by_id,
    "nvmlGpuInstanceDestroy": destroy,
    "nvmlComputeInstanceGetInfo_v2": compute_info,
    "nvmlComputeInstanceDestroy": destroy_compute,
}
"""By the handle of an instance, which is found first."""


def at(node: Node, handle: int) -> tuple[SimGpu, MigInstance]:
    """Return the instance that *handle* stands for, or fail if that is gone."""
    kind, _, rest = node.name(handle).partition(":")
    uuid_of_gpu, _, identity = rest.rpartition(":")
    gpu = next((each for each in node.gpus if each.uuid == uuid_of_gpu), None)
    if gpu is None or kind not in {_GPU_INSTANCE, _COMPUTE_INSTANCE}:
        raise NvmlFailureError("INVALID_ARGUMENT")
    found = _found(gpu, int(identity))
    if kind == _COMPUTE_INSTANCE and not found.uuid:
        raise NvmlFailureError("NOT_FOUND")
    return gpu, found


def _found(gpu: SimGpu, identity: int) -> MigInstance:
    found = next((each for each in _all(gpu) if each.gpu_instance_id == identity), None)
    if found is None:
        raise NvmlFailureError("NOT_FOUND")
    return found


def _all(gpu: SimGpu) -> tuple[MigInstance, ...]:
    return (*gpu.mig, *gpu.bare)


def _slices(instance: MigInstance) -> set[int]:
    return set(range(instance.start, instance.start + instance.profile.memory_slices))


def _handle(node: Node, kind: str, gpu: SimGpu, identity: int) -> int:
    return node.handle(f"{kind}:{gpu.uuid}:{identity}")


def _set_handle(memory: Any, offset: int, handle: int) -> None:
    ctypes.c_void_p.from_buffer(memory, offset).value = handle
