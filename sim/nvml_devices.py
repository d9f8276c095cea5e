"""The functions of `libnvidia-ml.so` that describe the system and its devices.

Each takes what the C function takes, after the node; device functions get their handle
resolved. They return nothing on success and raise `NvmlFailureError` otherwise.
"""

from collections.abc import Callable
from typing import Any, Final, get_args

import pynvml

from sim import nvml_processes
from sim.gpufile import RecoveryWord
from sim.nvml_memory import (
    NvmlFailureError,
    check_version,
    handle_number,
    number,
    target,
    text,
    write,
    write_handle,
    write_text,
)
from sim.nvml_node import Node, Target

_MIB: Final = 1024 * 1024
_RECOVERY_WORDS: Final[tuple[str, ...]] = get_args(RecoveryWord)
_COMPUTE_MODES: Final = {
    "default": pynvml.NVML_COMPUTEMODE_DEFAULT,
    "exclusive-process": pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
    "prohibited": pynvml.NVML_COMPUTEMODE_PROHIBITED,
}


def driver_version(node: Node, buffer: Any, size: Any) -> None:
    """Answer with the driver's version."""
    write_text(buffer, size, node.file.driver.version)


def nvml_version(node: Node, buffer: Any, size: Any) -> None:
    """Answer with the library's version, which is CUDA's major and the driver's."""
    driver = node.file.driver
    write_text(buffer, size, f"{driver.cuda.partition('.')[0]}.{driver.version}")


def cuda_version(node: Node, result: Any) -> None:
    """Answer with CUDA's version as 1000 x major + 10 x minor."""
    major, minor = node.file.driver.cuda.split(".")
    write(result, int(major) * 1000 + int(minor) * 10)


def count(node: Node, result: Any) -> None:
    """Answer with the number of GPUs."""
    write(result, len(node.gpus))


def handle_by_index(node: Node, index: Any, result: Any) -> None:
    """Answer with the handle at *index*, unless that GPU cannot be attached."""
    if number(index) >= len(node.gpus):
        raise NvmlFailureError("INVALID_ARGUMENT")
    gpu = node.gpus[number(index)]
    node.fail_if_told("nvmlDeviceGetHandleByIndex_v2", gpu)
    write_handle(result, node.handle(gpu.uuid))


def handle_by_uuid(node: Node, uuid: Any, result: Any) -> None:
    """Answer with the handle of a GPU or a partition."""
    found = node.find(text(uuid))
    if found is None:
        raise NvmlFailureError("NOT_FOUND")
    node.fail_if_told("nvmlDeviceGetHandleByUUID", found.gpu)
    write_handle(result, node.handle(found.uuid))


def index_of(node: Node, device: Target, result: Any) -> None:
    """Answer with the GPU's place in the enumeration."""
    write(result, [gpu.uuid for gpu in node.gpus].index(device.gpu.uuid))


def uuid_of(_node: Node, device: Target, buffer: Any, size: Any) -> None:
    """Answer with the UUID."""
    write_text(buffer, size, device.uuid)


def name(_node: Node, device: Target, buffer: Any, size: Any) -> None:
    """Answer with the product name; a partition's ends in its profile."""
    tail = "" if device.instance is None else f" MIG {device.instance.profile.name}"
    write_text(buffer, size, device.gpu.name + tail)


def serial(_node: Node, device: Target, buffer: Any, size: Any) -> None:
    """Answer with a number made from the PCI id; boards without a serial do not exist here."""
    write_text(buffer, size, f"13205{device.gpu.minor:08d}")


def brand(_node: Node, device: Target, result: Any) -> None:
    """Answer with the brand."""
    write(result, getattr(pynvml, f"NVML_BRAND_{device.gpu.board.brand}"))


def architecture(_node: Node, device: Target, result: Any) -> None:
    """Answer with the architecture."""
    write(result, getattr(pynvml, f"NVML_DEVICE_ARCH_{device.gpu.board.architecture}"))


def minor_number(_node: Node, device: Target, result: Any) -> None:
    """Answer with the number of the device node."""
    write(result, device.gpu.minor)


def compute_capability(_node: Node, device: Target, major: Any, minor: Any) -> None:
    """Answer with the two parts of the compute capability."""
    first, second = device.gpu.board.compute_capability.split(".")
    write(major, int(first))
    write(minor, int(second))


def compute_mode(_node: Node, device: Target, result: Any) -> None:
    """Answer with the compute mode."""
    write(result, _COMPUTE_MODES[device.gpu.entry.compute_mode])


def pci_info(_node: Node, device: Target, result: Any) -> None:
    """Answer with the bus id in NVML's form: eight digits of domain, upper case."""
    domain, bus, rest = device.gpu.pci_bus_id.split(":")
    info = target(result)
    info.domain, info.bus, info.device = int(domain, 16), int(bus, 16), int(rest[:2], 16)
    info.busId = f"{info.domain:08X}:{bus}:{rest}".upper()
    info.busIdLegacy = f"{info.domain:04X}:{bus}:{rest}".upper()


def memory(_node: Node, device: Target, result: Any) -> None:
    """Answer with total, free and used."""
    _fill_memory(device, target(result))


def memory_v2(_node: Node, device: Target, result: Any) -> None:
    """Answer with total, reserved, free and used."""
    info = target(result)
    check_version(info, pynvml.nvmlMemory_v2)
    _fill_memory(device, info)
    info.reserved = _reserved(device)
    info.free = max(0, info.free - info.reserved)


def _fill_memory(device: Target, info: Any) -> None:
    total_mib = device.gpu.memory_mib
    if total_mib is None:
        raise NvmlFailureError("NOT_SUPPORTED")
    if device.instance is not None:
        total_mib = device.instance.profile.memory_mib
    info.total = total_mib * _MIB
    info.used = min(total_mib, _used_mib(device)) * _MIB
    info.free = info.total - info.used


def _used_mib(device: Target) -> int:
    return sum(each.memory_mib or 0 for each in nvml_processes.running(device))


def _reserved(device: Target) -> int:
    return 0 if device.instance is not None else device.gpu.memory_reserved_mib * _MIB


def field_values(_node: Node, device: Target, count: Any, values: Any) -> None:
    """Answer for each field with its value, or why there is none; only one is known here."""
    for value in target(values)[: number(count)]:
        value.nvmlReturn = pynvml.NVML_SUCCESS
        if value.fieldId != pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
            value.nvmlReturn = pynvml.NVML_ERROR_INVALID_ARGUMENT
        elif device.gpu.entry.recovery_action is None:
            value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED
        else:
            value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
            value.value.uiVal = _recovery_action(device.gpu.entry.recovery_action)


def _recovery_action(action: str | int) -> int:
    return action if isinstance(action, int) else _RECOVERY_WORDS.index(action)


def common_ancestor(node: Node, device: Target, other: Any, result: Any) -> None:
    """Answer with how far up two GPUs meet."""
    one, two = device.gpu, node.at(handle_number(other)).gpu
    if one.uuid == two.uuid:
        level = pynvml.NVML_TOPOLOGY_INTERNAL
    elif one.entry.pcie_root == two.entry.pcie_root:
        level = pynvml.NVML_TOPOLOGY_HOSTBRIDGE
    elif one.entry.numa_node == two.entry.numa_node:
        level = pynvml.NVML_TOPOLOGY_NODE
    else:
        level = pynvml.NVML_TOPOLOGY_SYSTEM
    write(result, level)


SYSTEM: Final[dict[str, Callable[..., None]]] = {
    "nvmlSystemGetDriverVersion": driver_version,
    "nvmlSystemGetNVMLVersion": nvml_version,
    "nvmlSystemGetCudaDriverVersion": cuda_version,
    "nvmlSystemGetCudaDriverVersion_v2": cuda_version,
    "nvmlDeviceGetCount_v2": count,
    "nvmlDeviceGetHandleByIndex_v2": handle_by_index,
    "nvmlDeviceGetHandleByUUID": handle_by_uuid,
}
DEVICE: Final[dict[str, Callable[..., None]]] = {
    "nvmlDeviceGetIndex": index_of,
    "nvmlDeviceGetUUID": uuid_of,
    "nvmlDeviceGetName": name,
    "nvmlDeviceGetSerial": serial,
    "nvmlDeviceGetBrand": brand,
    "nvmlDeviceGetArchitecture": architecture,
    "nvmlDeviceGetMinorNumber": minor_number,
    "nvmlDeviceGetCudaComputeCapability": compute_capability,
    "nvmlDeviceGetComputeMode": compute_mode,
    "nvmlDeviceGetPciInfo_v3": pci_info,
    "nvmlDeviceGetMemoryInfo": memory,
    "nvmlDeviceGetMemoryInfo_v2": memory_v2,
    "nvmlDeviceGetTopologyCommonAncestor": common_ancestor,
    "nvmlDeviceGetFieldValues": field_values,
    **nvml_processes.DEVICE,
}
