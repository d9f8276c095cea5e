"""The functions of `libnvidia-ml.so` that tell who uses a device, and how busy it is.

Nothing computes on a simulated GPU, so its file says who would.
"""

from collections.abc import Callable
from typing import Any, Final

import pynvml

from sim.gpufile import ProcessEntry
from sim.nvml_memory import NvmlFailureError, number, target, write
from sim.nvml_node import Node, Target

_NO_INSTANCE: Final = 0xFFFFFFFF


def running(device: Target) -> list[ProcessEntry]:
    """Return the processes on a GPU, or those on one of its partitions."""
    found = device.gpu.entry.processes
    if device.instance is None:
        return found
    return [each for each in found if each.partition == device.instance.uuid]


def compute_processes(_node: Node, device: Target, count: Any, infos: Any) -> None:
    """Answer with the processes that compute."""
    _answer(device, [each for each in running(device) if not each.graphics], count, infos)


def graphics_processes(_node: Node, device: Target, count: Any, infos: Any) -> None:
    """Answer with the processes that draw."""
    _answer(device, [each for each in running(device) if each.graphics], count, infos)


def utilization(_node: Node, device: Target, result: Any) -> None:
    """Answer with how busy the GPU and its memory are."""
    entry = device.gpu.entry
    if device.instance is not None or entry.utilization_percent is None:
        raise NvmlFailureError("NOT_SUPPORTED")
    rates = target(result)
    rates.gpu = entry.utilization_percent
    rates.memory = entry.memory_utilization_percent


def _answer(device: Target, found: list[ProcessEntry], count: Any, infos: Any) -> None:
    room = number(target(count))
    write(count, len(found))
    if room < len(found):
        raise NvmlFailureError("INSUFFICIENT_SIZE")
    for place, process in enumerate(found):
        info = target(infos)[place]
        info.pid = process.pid
        info.usedGpuMemory = pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value
        if process.memory_mib is not None:
            info.usedGpuMemory = process.memory_mib * 2**20
        info.gpuInstanceId, info.computeInstanceId = _instance(device, process)


def _instance(device: Target, process: ProcessEntry) -> tuple[int, int]:
    for each in device.gpu.mig:
        if each.uuid == process.partition:
            return each.gpu_instance_id, each.compute_instance_id
    return _NO_INSTANCE, _NO_INSTANCE


DEVICE: Final[dict[str, Callable[..., None]]] = {
    "nvmlDeviceGetComputeRunningProcesses_v3": compute_processes,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": graphics_processes,
    "nvmlDeviceGetUtilizationRates": utilization,
}
