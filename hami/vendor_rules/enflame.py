"""Enflame's DRS: one profile of one device, named by its size or by memory and cores.

Which profiles there are stands on the nodes, so what the numbers become is the scheduler's
matter. Memory is GB or MiB: the scheduler takes what no profile could offer in GB for MiB.
"""

from hami import amounts
from hami.requests import DeviceRequest
from hami.vendor_rules.asking import Asking
from hami.vendor_rules.plain import sized
from hami.vendor_rules.vendor import Vendor


def read_drs(vendor: Vendor, asking: Asking) -> DeviceRequest | None:
    """Read a profile; limits and requests carry it afterwards, wherever it stood."""
    parts = vendor.memory_name, vendor.core_name
    if asking.says(vendor.count_name):
        size = _copied(asking, vendor.count_name, amounts.MEMORY_LIMIT_MIB)
        for part in filter(asking.says, parts):
            asking.warn("AmountIgnored", part, f"{part} has no effect beside {vendor.count_name}")
        return sized(vendor, 1, memory_mib=size, cores=0)
    if not asking.says(*parts):
        return None
    memory = _copied(asking, vendor.memory_name, amounts.MEMORY_LIMIT_MIB)
    cores = _copied(asking, vendor.core_name, 100)
    return sized(vendor, 1, memory_mib=memory, cores=cores)


def _copied(asking: Asking, name: str, high: int) -> int:
    number = asking.amount(name, low=1, high=high, in_requests=True)
    if number is not None:
        asking.set(name, number, request=True)
    return number or 0
