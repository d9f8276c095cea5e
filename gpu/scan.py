"""Turns NVML's answers about one GPU into a `Gpu`, or into the fault that prevented it.

What identifies a GPU or bounds what may be given away must be answered; what merely describes
it falls back to a word. Memory may be `NOT_SUPPORTED`: a GPU that shares the host's memory has
no total of its own. Reads of MIG devices tolerate `NOT_FOUND`, because slots are sparse and a
partition may go away during the scan. What the driver advises for a GPU is a field value: drivers
that do not know it, which older ones call an invalid argument, give no advice.

It gets the session's call as an argument, so that the binding stays in `gpu.nvml`; the numbers
here are part of the library's binary interface and never change their meaning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from gpu import mig, sysfs
from gpu.errors import NvmlError
from gpu.model import ComputeMode, Gpu, GpuFault, GpuUuid, MigDevice, PciBusId

_T = TypeVar("_T")

_MIB: Final = 1024 * 1024
_MEMORY_V2: Final = 0x02000028
_MIG_ENABLED: Final = 1
_COUNT_MAX: Final = 1024
ABSENT: Final = frozenset({"NOT_SUPPORTED", "FUNCTION_NOT_FOUND"})
_NO_V2: Final = ABSENT | {"ARGUMENT_VERSION_MISMATCH"}
_SUCCESS: Final = 0
_RECOVERY_ACTION: Final = 230
# The members of a field's value by its type; 0 is a floating-point number.
_INTEGERS: Final = {1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}

_COMPUTE_MODES: Final = {
    0: ComputeMode.DEFAULT,
    1: ComputeMode.EXCLUSIVE_PROCESS,  # exclusive-thread, which drivers since R384 lack
    2: ComputeMode.PROHIBITED,
    3: ComputeMode.EXCLUSIVE_PROCESS,
}
# The words of NVIDIA's own DRA driver, so that a selector carries over.
_BRANDS: Final = (
    *("Unknown", "Quadro", "Tesla", "NVS", "Grid", "GeForce", "Titan"),
    *("NvidiaVApps", "NvidiaVPC", "NvidiaVCS", "NvidiaVWS", "NvidiaCloudGaming"),
    *("QuadroRTX", "NvidiaRTX", "Nvidia", "GeForceRTX", "TitanRTX"),
)
_ARCHITECTURES: Final = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}


class Call(Protocol):
    """Call a function of the NVML binding by name; raise `NvmlError` when it fails."""

    def __call__(self, function: str, /, *arguments: Any, **options: Any) -> Any:
        """Return what the binding returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGpu:
    """A GPU that could be read."""

    gpu: Gpu
    action: int | None
    """What the driver advises to do with it, 0 for nothing; `None` if it gives no advice."""
    handle: Any
    """NVML's handle, valid as long as the session."""


@dataclass(frozen=True, slots=True)
class _Device:
    """A handle and the way to ask about it."""

    call: Call
    handle: Any

    def ask(self, function: str, *arguments: Any, **options: Any) -> Any:
        return self.call(function, self.handle, *arguments, **options)

    def ask_or(self, default: Any, function: str) -> Any:
        """Return *default* where this GPU or this driver has no such thing."""
        try:
            return self.ask(function)
        except NvmlError as error:
            if error.reason in ABSENT:
                return default
            raise


def counted(call: Call, function: str) -> int:
    """Return the count that *function* answers; `NvmlError` if no machine can have so many."""
    count = int(call(function))
    if count > _COUNT_MAX:
        raise _implausible(function, str(count))
    return count


def read_gpu(
    call: Call, index: int, *, versions: tuple[str, str], sysfs_root: Path
) -> ReadGpu | GpuFault:
    """Read the GPU at NVML's *index*; *versions* are the driver's and CUDA's."""
    device: _Device | None = None
    try:
        device = _Device(call, call("nvmlDeviceGetHandleByIndex", index))
        gpu = _gpu(device, versions=versions, sysfs_root=sysfs_root)
        return ReadGpu(gpu=gpu, action=_recovery_action(device), handle=device.handle)
    except NvmlError as error:
        return GpuFault(
            index=index,
            uuid=_unless_failed(_uuid, device),
            pci_bus_id=_unless_failed(_bus_id, device),
            reason=error.reason,
            call=error.call,
        )


def _gpu(device: _Device, *, versions: tuple[str, str], sysfs_root: Path) -> Gpu:
    uuid, bus_id = _uuid(device), _bus_id(device)
    memory_mib, reserved_mib = _memory_mib(device)
    mig_enabled = _mig_enabled(device)
    architecture = device.ask_or(None, "nvmlDeviceGetArchitecture")
    return Gpu(
        uuid=uuid,
        pci_bus_id=bus_id,
        minor=device.ask("nvmlDeviceGetMinorNumber"),
        name=device.ask("nvmlDeviceGetName"),
        brand=_brand(device.ask_or(0, "nvmlDeviceGetBrand")),
        architecture=_ARCHITECTURES.get(architecture, "Unknown"),
        memory_mib=memory_mib,
        memory_reserved_mib=reserved_mib,
        compute_capability="{}.{}".format(*device.ask("nvmlDeviceGetCudaComputeCapability")),
        driver_version=versions[0],
        cuda_driver_version=versions[1],
        numa_node=sysfs.numa_node(bus_id, sysfs=sysfs_root),
        pcie_root=sysfs.pcie_root(bus_id, sysfs=sysfs_root),
        mig_enabled=mig_enabled,
        compute_mode=_compute_mode(device),
        mig_devices=_mig_devices(device, uuid, memory_mib) if mig_enabled else (),
    )


def _recovery_action(device: _Device) -> int | None:
    try:
        (field,) = device.ask("nvmlDeviceGetFieldValues", [_RECOVERY_ACTION])
    except NvmlError:
        # Advice that cannot be read makes a readable GPU no fault.
        return None
    member = _INTEGERS.get(field.valueType)
    if field.nvmlReturn != _SUCCESS or member is None:
        return None
    action = int(getattr(field.value, member))
    return action if action >= 0 else None


def _implausible(function: str, answer: str) -> NvmlError:
    return NvmlError("IMPLAUSIBLE_NUMBER", function, answer)


def _uuid(device: _Device) -> GpuUuid:
    return GpuUuid(device.ask("nvmlDeviceGetUUID"))


def _bus_id(device: _Device) -> PciBusId:
    info = device.ask("nvmlDeviceGetPciInfo")
    try:
        return sysfs.pci_bus_id(info.busId)
    except ValueError as error:
        raise NvmlError("UNREADABLE_TEXT", "nvmlDeviceGetPciInfo", str(error)) from error


def _unless_failed(read: Callable[[_Device], _T], device: _Device | None) -> _T | None:
    if device is None:
        return None
    try:
        return read(device)
    except NvmlError:
        return None


def _brand(number: int) -> str:
    return _BRANDS[number] if number < len(_BRANDS) else _BRANDS[0]


def _memory_mib(device: _Device) -> tuple[int | None, int]:
    """Return total and reserved memory; `None` where the GPU has no total of its own."""
    try:
        memory = device.ask("nvmlDeviceGetMemoryInfo", version=_MEMORY_V2)
        reserved = memory.reserved
    except NvmlError as error:
        if error.reason not in _NO_V2:
            raise
        memory = device.ask_or(None, "nvmlDeviceGetMemoryInfo")
        reserved = 0
    if memory is None or memory.total == 0:
        return None, 0
    if memory.total < _MIB:
        raise _implausible("nvmlDeviceGetMemoryInfo", f"{memory.total} bytes")
    # What is kept back rounds up, as what can be given away rounds down.
    return memory.total // _MIB, -(-reserved // _MIB)


def _compute_mode(device: _Device) -> ComputeMode:
    mode = device.ask_or(0, "nvmlDeviceGetComputeMode")
    # A mode from the future is taken for the strictest one.
    return _COMPUTE_MODES.get(mode, ComputeMode.PROHIBITED)


def _mig_enabled(device: _Device) -> bool:
    current, _pending = device.ask_or((0, 0), "nvmlDeviceGetMigMode")
    return bool(current == _MIG_ENABLED)


def _mig_devices(
    device: _Device, parent: GpuUuid, board_memory_mib: int | None
) -> tuple[MigDevice, ...]:
    slots = range(counted(device.ask, "nvmlDeviceGetMaxMigDeviceCount"))
    found = (_mig_device(device, slot, parent, board_memory_mib) for slot in slots)
    return tuple(
        sorted(
            (each for each in found if each is not None),
            key=lambda each: (each.gpu_instance_id, each.compute_instance_id),
        )
    )


def _mig_device(
    device: _Device, slot: int, parent: GpuUuid, board_memory_mib: int | None
) -> MigDevice | None:
    try:
        part = _Device(device.call, device.ask("nvmlDeviceGetMigDeviceHandleByIndex", slot))
        attributes = part.ask("nvmlDeviceGetAttributes_v2")
        if not attributes.memorySizeMB or not attributes.multiprocessorCount:
            raise _implausible("nvmlDeviceGetAttributes_v2", "a partition of nothing")
        return MigDevice(
            uuid=_uuid(part),
            parent_uuid=parent,
            profile=_profile(part, attributes, board_memory_mib),
            gpu_instance_id=part.ask("nvmlDeviceGetGpuInstanceId"),
            compute_instance_id=part.ask("nvmlDeviceGetComputeInstanceId"),
            memory_mib=attributes.memorySizeMB,
            multiprocessors=attributes.multiprocessorCount,
        )
    except NvmlError as error:
        if error.reason == "NOT_FOUND":
            return None
        raise


def _profile(part: _Device, attributes: Any, board_memory_mib: int | None) -> str:
    named = mig.profile_in_name(part.ask("nvmlDeviceGetName"))
    if named is not None:
        return named
    return mig.profile_from_slices(
        compute_slices=attributes.computeInstanceSliceCount,
        gpu_slices=attributes.gpuInstanceSliceCount,
        memory_mib=attributes.memorySizeMB,
        board_memory_mib=board_memory_mib or attributes.memorySizeMB,
    )
