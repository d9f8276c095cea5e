"""The MIG functions of `libnvidia-ml.so`, read side only: partitions come from the GPU file."""

from collections.abc import Callable
from typing import Any, Final

import pynvml

from sim.boards import MigProfile, MigTable
from sim.hardware import MigInstance
from sim.nvml_memory import NvmlFailureError, check_version, number, target, write, write_handle
from sim.nvml_node import Node, Target


def mode(_node: Node, device: Target, current: Any, pending: Any) -> None:
    """Answer with the mode; it changes at once, as it does since Hopper."""
    _table(device)
    enabled = int(device.gpu.entry.mig is not None)
    write(current, enabled)
    write(pending, enabled)


def most_devices(_node: Node, device: Target, result: Any) -> None:
    """Answer with how many partitions the board can have at most."""
    table = device.gpu.board.mig
    write(result, 0 if table is None else max(each.instances for each in table.profiles))


def handle_by_index(node: Node, device: Target, index: Any, result: Any) -> None:
    """Answer with the handle of the partition in a slot, `NOT_FOUND` for an empty one."""
    if number(index) >= len(device.gpu.mig):
        raise NvmlFailureError("NOT_FOUND")
    write_handle(result, node.handle(device.gpu.mig[number(index)].uuid))


def is_partition(_node: Node, device: Target, result: Any) -> None:
    """Answer whether the handle is a partition's."""
    write(result, int(device.instance is not None))


def parent(node: Node, device: Target, result: Any) -> None:
    """Answer with the handle of the GPU around a partition."""
    _instance(device)
    write_handle(result, node.handle(device.gpu.uuid))


def gpu_instance_id(_node: Node, device: Target, result: Any) -> None:
    """Answer with the number of the partition's GPU instance."""
    write(result, _instance(device).gpu_instance_id)


def compute_instance_id(_node: Node, device: Target, result: Any) -> None:
    """Answer with the number of the partition's compute instance."""
    write(result, _instance(device).compute_instance_id)


def attributes(_node: Node, device: Target, result: Any) -> None:
    """Answer with the resources of a partition."""
    profile, filled = _instance(device).profile, target(result)
    filled.multiprocessorCount = profile.multiprocessors
    filled.sharedCopyEngineCount = profile.engines.copy_engines
    filled.sharedDecoderCount = profile.engines.decoder
    filled.sharedEncoderCount = profile.engines.encoder
    filled.sharedJpegCount = profile.engines.jpeg
    filled.sharedOfaCount = profile.engines.ofa
    filled.gpuInstanceSliceCount = profile.slices
    filled.computeInstanceSliceCount = profile.slices
    filled.memorySizeMB = profile.memory_mib


def profile_info(_node: Node, device: Target, profile: Any, result: Any) -> None:
    """Answer with the resources of a profile, first version."""
    _fill_profile(_by_enum(device, number(profile)), target(result))


def profile_info_v(_node: Node, device: Target, profile: Any, result: Any) -> None:
    """Answer with the resources of a profile and its name."""
    found, info = _by_enum(device, number(profile)), target(result)
    check_version(info, pynvml.nvmlGpuInstanceProfileInfo_v2)
    _fill_profile(found, info)
    info.name = f"MIG {found.name}"


def placements(_node: Node, device: Target, profile: Any, places: Any, found: Any) -> None:
    """Answer with where a profile may start; without an array, only with how many there are."""
    wanted = number(profile)
    shape = next((each for each in _table(device).profiles if each.id == wanted), None)
    if shape is None:
        raise NvmlFailureError("NOT_SUPPORTED")
    if places is not None:
        array = target(places)
        if number(target(found)) < len(shape.starts):
            raise NvmlFailureError("INSUFFICIENT_SIZE")
        for place, start in zip(array, shape.starts, strict=False):
            place.start, place.size = start, shape.memory_slices
    write(found, len(shape.starts))


def _table(device: Target) -> MigTable:
    table = device.gpu.board.mig
    if table is None or device.instance is not None:
        raise NvmlFailureError("NOT_SUPPORTED")
    return table


def _by_enum(device: Target, enum: int) -> MigProfile:
    found = next((each for each in _table(device).profiles if each.enum == enum), None)
    if found is None:
        raise NvmlFailureError("NOT_SUPPORTED")
    return found


def _instance(device: Target) -> MigInstance:
    if device.instance is None:
        raise NvmlFailureError("NOT_SUPPORTED")
    return device.instance


def _fill_profile(profile: MigProfile, info: Any) -> None:
    info.id = profile.id
    info.isP2pSupported = 0
    info.sliceCount = profile.slices
    info.instanceCount = profile.instances
    info.multiprocessorCount = profile.multiprocessors
    info.copyEngineCount = profile.engines.copy_engines
    info.decoderCount = profile.engines.decoder
    info.encoderCount = profile.engines.encoder
    info.jpegCount = profile.engines.jpeg
    info.ofaCount = profile.engines.ofa
    info.memorySizeMB = profile.memory_mib


DEVICE: Final[dict[str, Callable[..., None]]] = {
    "nvmlDeviceGetMigMode": mode,
    "nvmlDeviceGetMaxMigDeviceCount": most_devices,
    "nvmlDeviceGetMigDeviceHandleByIndex": handle_by_index,
    "nvmlDeviceIsMigDeviceHandle": is_partition,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": parent,
    "nvmlDeviceGetGpuInstanceId": gpu_instance_id,
    "nvmlDeviceGetComputeInstanceId": compute_instance_id,
    "nvmlDeviceGetAttributes_v2": attributes,
    "nvmlDeviceGetGpuInstanceProfileInfo": profile_info,
    "nvmlDeviceGetGpuInstanceProfileInfoV": profile_info_v,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": placements,
}
