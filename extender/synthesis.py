"""Devices of vendors whose nodes register none: they follow from the node's capacity.

HAMi v2.10 makes them up in each vendor's `GetNodeDevices` (`pkg/device/*/device.go`), and device
plugins expect the ids that come of it. A capacity that is no whole number is none, as in HAMi.
"""

from collections.abc import Callable, Mapping
from typing import Final

from hami.backends import Backend
from hami.devices import RegisteredDevice
from hami.vendor_rules.multiples import MTHREADS_CORES
from hami.vendor_rules.neuron import NeuronRule
from hami.vendors import Vendor
from kube import quantity

_MOST_DEVICES: Final = 1024
"""More are not on one node; a capacity is only text."""
_INT32_MAX: Final = 2**31 - 1
_MOST_NEURON_CORES: Final = 31
"""HAMi keeps them as bits of a signed number."""
_ALL_CORES: Final = 100
_SHARERS: Final = 100
_METAX_MIB: Final = 65536
_KUNLUN_MIB: Final = 98304
_GCU_MIB: Final = 100
"""Not a size, but what HAMi gives a whole card to be booked whole."""

Capacity = Mapping[str, str]


def devices_of_capacity(
    backend: Backend, node_name: str, capacity: Capacity
) -> tuple[RegisteredDevice, ...]:
    """Return the devices of a vendor on a node of *capacity*; none of one that registers.

    All are healthy: whether the node still counts them is seen in its capacity.
    """
    synthesise = _BY_WORD.get(backend.word)
    if synthesise is None or not isinstance(backend, Vendor):
        return ()
    return synthesise(backend, node_name, capacity)


def _cambricon(vendor: Vendor, node: str, capacity: Capacity) -> tuple[RegisteredDevice, ...]:
    """Return one device for each 100 cores that were begun."""
    return _by_cores(vendor, f"{node}-cambricon-mlu", capacity, _ALL_CORES)


def _mthreads(vendor: Vendor, node: str, capacity: Capacity) -> tuple[RegisteredDevice, ...]:
    return _by_cores(vendor, f"{node}-mthreads", capacity, MTHREADS_CORES)


def _by_cores(
    vendor: Vendor, prefix: str, capacity: Capacity, cores_per_device: int
) -> tuple[RegisteredDevice, ...]:
    cores = _amount(capacity, vendor.core_name)
    units = _amount(capacity, vendor.memory_name)
    if not cores:
        return ()
    memory_mib = min(units * vendor.memory_factor * cores_per_device // cores, _INT32_MAX)
    return tuple(
        _device(vendor, f"{prefix}-{index}", index, memory_mib=memory_mib, cores=cores_per_device)
        for index in _indices(-(-cores // cores_per_device))
    )


def _metax(vendor: Vendor, node: str, capacity: Capacity) -> tuple[RegisteredDevice, ...]:
    return tuple(
        _device(vendor, f"{node}-metax-{index}", index, count=1, memory_mib=_METAX_MIB)
        for index in _indices(_amount(capacity, vendor.count_name))
    )


def _kunlun(vendor: Vendor, node: str, capacity: Capacity) -> tuple[RegisteredDevice, ...]:
    """Let the second half hang on the other NUMA node."""
    number = _amount(capacity, vendor.count_name)
    return tuple(
        _device(
            vendor,
            f"{node}-kunlun-{index}",
            index,
            memory_mib=_KUNLUN_MIB,
            numa=int(index >= number // 2),
        )
        for index in _indices(number)
    )


def _gcu(vendor: Vendor, node: str, capacity: Capacity) -> tuple[RegisteredDevice, ...]:
    return tuple(
        _device(vendor, f"{node}-GCU-{index}", index, count=1, memory_mib=_GCU_MIB)
        for index in _indices(_amount(capacity, vendor.count_name))
    )


def _neuron(vendor: Vendor, node: str, capacity: Capacity) -> tuple[RegisteredDevice, ...]:
    """Make cores bits; HAMi takes those of the first node that it sees for those of all."""
    number = _amount(capacity, vendor.count_name)
    if not number:
        return ()
    cores = _amount(capacity, vendor.core_name) // number
    if not cores and isinstance(vendor.rule, NeuronRule):
        cores = vendor.rule.cores_per_device
    cores = min(cores, _MOST_NEURON_CORES)
    return tuple(
        _device(
            vendor,
            f"{node}-{vendor.word}-{index}",
            index,
            count=cores,
            memory_mib=0,
            cores=(1 << cores) - 1,
        )
        for index in _indices(number)
    )


def _device(  # noqa: PLR0913  a device has as many facts
    vendor: Vendor,
    uuid: str,
    index: int,
    *,
    memory_mib: int,
    count: int = _SHARERS,
    cores: int = _ALL_CORES,
    numa: int = 0,
) -> RegisteredDevice:
    return RegisteredDevice(
        word=vendor.word,
        uuid=uuid,
        index=index,
        count=count,
        memory_mib=memory_mib,
        cores=cores,
        type=vendor.word,
        numa=numa,
        mode="",
        healthy=True,
    )


def _indices(number: int) -> range:
    return range(min(number, _MOST_DEVICES))


def _amount(capacity: Capacity, name: str) -> int:
    """Return a whole amount, 0 where there is none."""
    try:
        found = quantity.parse(capacity.get(name, "0"))
    except quantity.QuantityError:
        return 0
    return max(found.value(), 0) if found.is_whole() else 0


_BY_WORD: Final[Mapping[str, Callable[[Vendor, str, Capacity], tuple[RegisteredDevice, ...]]]] = {
    "MLU": _cambricon,
    "Mthreads": _mthreads,
    "Metax-GPU": _metax,
    "kunlun": _kunlun,
    "GCU": _gcu,
    "AWSNeuron": _neuron,
}
