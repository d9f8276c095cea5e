"""Vendors that give whole devices, and those that share them by memory and cores."""

from typing import Final

from hami.requests import DeviceRequest
from hami.vendor_rules.asking import Asking
from hami.vendor_rules.vendor import Vendor

KUNLUN_COUNTS: Final = (1, 2, 4, 8)
"""Kunlun's devices are given in halves of a wing, a wing or both."""
_KUNLUN_SIZES_MIB: Final = (24576, 49152, 98304)
_ALL: Final = 100


def read_devices(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read a number of devices and nothing else."""
    count = asking.count(vendor.count_name)
    return sized(vendor, count) if count else None


def read_share(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read a number of devices with memory and cores of each."""
    count = asking.count(vendor.count_name, vendor.memory_name, vendor.core_name)
    return _with_parts(vendor, asking, count) if count else None


def read_cambricon(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read a share; memory and cores alone are what Cambricon's own scheduling asks for."""
    parts = vendor.memory_name, vendor.core_name
    count = asking.count(vendor.count_name, *parts, needed=False)
    return _with_parts(vendor, asking, count) if count else None


def read_amd(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read a share whose cores, when named, are at least 1 percent."""
    request = read_share(vendor, asking)
    if request and request.cores == 0:
        limit = f"{vendor.core_name} must be 1..100"
        asking.refuse("AmountOutOfRange", vendor.core_name, limit)
    return request


def read_kunlun(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read 1, 2, 4 or 8 devices."""
    count = _kunlun_count(vendor, asking)
    return sized(vendor, count) if count else None


def read_kunlun_share(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read 1, 2, 4 or 8 devices with a quarter, a half or all of each one's memory."""
    count = _kunlun_count(vendor, asking)
    if not count:
        return None
    largest = _KUNLUN_SIZES_MIB[-1]
    size = asking.memory(vendor.memory_name, vendor.memory_factor)
    if size is None:
        return sized(vendor, count, memory_mib=largest, cores=_ALL)
    memory_mib = next((each for each in _KUNLUN_SIZES_MIB if size.mib <= each), largest)
    if memory_mib != size.mib:
        limit = f"{vendor.memory_name} becomes {memory_mib} MiB, one of {_KUNLUN_SIZES_MIB}"
        asking.warn("MemoryRounded", vendor.memory_name, limit)
    asking.set(vendor.memory_name, memory_mib, request=True)
    return sized(vendor, count, memory_mib=memory_mib, cores=memory_mib * _ALL // largest)


def sized(
    vendor: Vendor, count: int, *, memory_mib: int | None = None, cores: int | None = None
) -> DeviceRequest:
    """Return a request with what *vendor* gives where nothing is said."""
    whole = memory_mib is None and vendor.whole_card
    return DeviceRequest(
        word=vendor.word,
        count=count,
        memory_mib=None if whole else memory_mib or 0,
        memory_percent=_ALL if whole else None,
        cores=vendor.default_cores if cores is None else cores,
    )


def _with_parts(vendor: Vendor, asking: Asking, count: int) -> DeviceRequest:
    size = asking.memory(vendor.memory_name, vendor.memory_factor)
    cores = asking.amount(vendor.core_name, high=_ALL)
    return sized(vendor, count, memory_mib=size.mib if size else None, cores=cores)


def _kunlun_count(vendor: Vendor, asking: Asking) -> int | None:
    count = asking.count(vendor.count_name, vendor.memory_name)
    if count and count not in KUNLUN_COUNTS:
        limit = f"{vendor.count_name} must be one of 1, 2, 4, 8"
        asking.refuse("CountNotOffered", vendor.count_name, limit)
    return count
