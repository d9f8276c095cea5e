"""Iluvatar and Moore Threads: several devices are whole ones, and limits carry their sum."""

from typing import Final

from hami.requests import DeviceRequest
from hami.vendor_rules.asking import COUNT_MAX, Asking
from hami.vendor_rules.plain import sized
from hami.vendor_rules.vendor import Vendor

_PERCENT: Final = 100
_NAME_VARIABLE: Final = "SOL_CONTINER_NAME"
"""Misspelt by HAMi, and read so by Iluvatar's runtime."""

MTHREADS_CORES: Final = 16
MTHREADS_MEMORY: Final = 96
"""Of one device, in units of 512 MiB."""
MTHREADS_SIZES: Final = (2, 4, 8, 16, 32, 64, 96)
MTHREADS_COUNT_KEY: Final = "mthreads.com/request-gpu-num"


def read_iluvatar(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read a share; several devices get all cores, and the container learns its own name."""
    count = asking.count(vendor.count_name, vendor.memory_name, vendor.core_name)
    if not count:
        return None
    size = asking.memory(vendor.memory_name, vendor.memory_factor)
    cores = asking.amount(vendor.core_name, high=_PERCENT if count == 1 else COUNT_MAX)
    if count > 1:
        _replace(asking, vendor.core_name, cores, count * _PERCENT)
        cores = _PERCENT
    if asking.container.name and not asking.sets_env(_NAME_VARIABLE):
        asking.append_env(_NAME_VARIABLE, asking.container.name)
    return sized(vendor, count, memory_mib=size.mib if size else None, cores=cores)


def read_mthreads(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read one device or a part of it, or several whole ones."""
    parts = vendor.memory_name, vendor.core_name
    count = asking.count(vendor.count_name, *parts)
    if count is None:
        if asking.says(vendor.count_name) and not asking.reasons:
            limit = f"{vendor.count_name} must be greater than 0"
            asking.refuse("CountIsZero", vendor.count_name, limit)
        return None
    size = asking.memory(vendor.memory_name, vendor.memory_factor)
    units = size.units if size else None
    part = count == 1 and units is not None
    cores = asking.amount(vendor.core_name, high=MTHREADS_CORES if part else COUNT_MAX)
    if count == 1 and units is not None:
        if units not in MTHREADS_SIZES:
            limit = f"{vendor.memory_name} must be one of {', '.join(map(str, MTHREADS_SIZES))}"
            asking.refuse("MemoryNotOffered", vendor.memory_name, limit)
    else:
        cores = _replace(asking, vendor.core_name, cores, count * MTHREADS_CORES)
        units = _replace(asking, vendor.memory_name, units, count * MTHREADS_MEMORY)
    if count > 1:
        asking.annotate(MTHREADS_COUNT_KEY, str(count))
    memory_mib = units * vendor.memory_factor // count
    return sized(vendor, count, memory_mib=memory_mib, cores=(cores or 0) // count)


def _replace(asking: Asking, name: str, written: int | None, number: int) -> int:
    """Put *number* in the place of *written*, saying so."""
    if written is not None and written != number:
        asking.warn("AmountReplaced", name, f"{name} becomes {number}: the devices are whole")
    asking.set(name, number)
    return number
