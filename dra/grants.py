"""From an allocation to what each device gives: who holds how much, and which limits follow.

The limit is what was *consumed*, whatever class the request named. A container runs without
limits only when all it got is whole: whole memory with no core limit, a device nobody shares, or
a MIG device, which the hardware limits.

HAMi-core reads limits by the index that a GPU has inside the container. That is the PCI bus order
of the GPUs the container sees, so shares of one physical GPU are summed and GPUs are numbered in
one loop over them in that order.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dra.allocation import AllocatedDevice
from dra.record import GpuLimit, PreparedDevice
from gpu import names
from gpu.model import Gpu, Inventory, MigDevice
from gpu.refusal import Refusal, RefusedError
from kube.quantity import QuantityError, parse

CORES_WHOLE = 100
MIB = 2**20


@dataclass(frozen=True, slots=True)
class NodeDevice:
    """A device of the node by its published name."""

    gpu: Gpu
    mig: MigDevice | None = None


def devices_by_name(inventory: Inventory) -> dict[str, NodeDevice]:
    """Return what is there now; a GPU in MIG mode is only its MIG devices."""
    found: dict[str, NodeDevice] = {}
    for gpu in inventory.gpus:
        if not gpu.mig_enabled:
            found[names.device_name(gpu.uuid)] = NodeDevice(gpu)
        for mig in gpu.mig_devices:
            found[names.device_name(mig.uuid)] = NodeDevice(gpu, mig)
    return found


def grant(allocated: AllocatedDevice, on_node: Mapping[str, NodeDevice]) -> PreparedDevice:
    """Return what *allocated* holds; raise `RefusedError` when it cannot be told for sure."""
    device = on_node.get(allocated.device)
    if device is None:
        raise _refused(allocated, "DeviceGone", allocated.device, "the node has no such device now")
    consumed = _consumed(allocated)
    dedicated = consumed is None
    whole_memory = (device.mig or device.gpu).memory_mib or 0
    memory, cores, shares = consumed or (whole_memory, CORES_WHOLE, 1)
    return PreparedDevice(
        request=allocated.main_request,
        pool=allocated.pool,
        device=allocated.device,
        share_id=allocated.share_id,
        uuid=device.mig.uuid if device.mig else device.gpu.uuid,
        parent_uuid=device.gpu.uuid,
        dedicated=dedicated,
        admin=allocated.admin,
        memory_mib=memory,
        cores_percent=cores,
        shares=shares,
    )


def is_limited(device: PreparedDevice, on_node: Mapping[str, NodeDevice]) -> bool:
    """Tell whether *device* by itself is less than a whole device."""
    node_device = on_node[device.device]
    if device.dedicated or device.admin or node_device.mig is not None:
        return False
    whole_memory = device.memory_mib >= (node_device.gpu.memory_mib or 0)
    return not (whole_memory and device.cores_percent in (0, CORES_WHOLE))


def limits(
    devices: tuple[PreparedDevice, ...], on_node: Mapping[str, NodeDevice]
) -> tuple[GpuLimit, ...]:
    """Return a limit for every visible GPU in PCI bus order, or none when all are whole."""
    summed: dict[str, tuple[Gpu, int, int]] = {}
    for device in devices:
        gpu = on_node[device.device].gpu
        held_mib = (gpu.memory_mib or 0) if device.admin else device.memory_mib
        _, memory, cores = summed.get(gpu.uuid, (gpu, 0, 0))
        summed[gpu.uuid] = (gpu, memory + held_mib, cores + _cores(device))
    if not any(is_limited(device, on_node) for device in devices):
        return ()
    if all(_is_whole(*entry) for entry in summed.values()):
        return ()
    _refuse_unlimitable(devices, on_node)
    in_bus_order = sorted(summed.values(), key=lambda entry: entry[0].pci_bus_id)
    return tuple(
        GpuLimit(
            uuid=gpu.uuid,
            memory_mib=min(memory, gpu.memory_mib or memory),
            cores_percent=min(cores, CORES_WHOLE),
        )
        for gpu, memory, cores in in_bus_order
    )


def _cores(device: PreparedDevice) -> int:
    # Zero asked means no core limit, which is written as the whole.
    return CORES_WHOLE if device.admin else device.cores_percent or CORES_WHOLE


def _is_whole(gpu: Gpu, memory_mib: int, cores_percent: int) -> bool:
    return memory_mib >= (gpu.memory_mib or 0) and cores_percent >= CORES_WHOLE


def _refuse_unlimitable(
    devices: tuple[PreparedDevice, ...], on_node: Mapping[str, NodeDevice]
) -> None:
    """Refuse beside a limited share what no limit can be written for, as each index needs one."""
    for device in devices:
        node_device = on_node[device.device]
        if node_device.mig is not None:
            raise _not_beside_share(device, "MigBesideShare", "a MIG device")
        if node_device.gpu.memory_mib is None:
            raise _not_beside_share(device, "UnifiedBesideShare", "a GPU without memory of its own")


def _not_beside_share(device: PreparedDevice, code: str, what: str) -> RefusedError:
    return RefusedError(
        Refusal(
            code=code,
            field="devices.requests",
            value=device.request,
            limit=f"a container cannot use {what} and a limited share together",
            remedy="put them into two claims for two containers",
        )
    )


def _consumed(allocated: AllocatedDevice) -> tuple[int, int, int] | None:
    """Return MiB, percent and shares; `None` for a device that nobody else may hold."""
    if allocated.consumed is None:
        if allocated.device_class == names.CLASS_SHARE or allocated.share_id is not None:
            raise _refused(
                allocated,
                "ConsumedCapacityMissing",
                allocated.device,
                "a share was allocated, but not how much of the GPU",
                "enable the feature gate DRAConsumableCapacity on API server and scheduler",
            )
        return None
    memory = _whole_number(allocated, names.CAPACITY_MEMORY)
    cores = _whole_number(allocated, names.CAPACITY_CORES)
    shares = _whole_number(allocated, names.CAPACITY_SHARES)
    if memory % MIB or memory == 0:
        value = allocated.consumed[names.CAPACITY_MEMORY]
        raise _refused(allocated, "MemoryNotWholeMiB", value, "memory is given in whole MiB")
    if cores > CORES_WHOLE:
        raise _refused(allocated, "CoresOutOfRange", str(cores), "0 to 100")
    if shares == 0:
        raise _refused(allocated, "SharesOutOfRange", str(shares), "1 or more")
    return memory // MIB, cores, shares


def _whole_number(allocated: AllocatedDevice, capacity: str) -> int:
    text = (allocated.consumed or {}).get(capacity)
    if text is None:
        limit = f"`consumedCapacity` lacks `{capacity}`"
        raise _refused(allocated, "ConsumedCapacityMissing", allocated.device, limit)
    try:
        quantity = parse(text)
    except QuantityError as error:
        raise _refused(allocated, "ConsumedCapacityUnreadable", text, str(error)) from error
    value = quantity.value()
    if value < 0 or not quantity.is_whole():
        raise _refused(allocated, "ConsumedCapacityUnreadable", text, "a whole number from 0")
    return value


def _refused(
    allocated: AllocatedDevice, code: str, value: str, limit: str, remedy: str = ""
) -> RefusedError:
    field = f"status.allocation.devices.results[{allocated.request}]"
    return RefusedError(Refusal(code=code, field=field, value=value, limit=limit, remedy=remedy))
