"""What a refusal says of amounts, beside HAMi's tokens."""

from collections.abc import Collection

from extender.model import DeviceUsage
from hami.requests import DeviceRequest


def need(request: DeviceRequest) -> str:
    """Return what is asked for, such as `2 NVIDIA, each 3000 MiB and 30 cores`."""
    parts = []
    if request.memory_mib:
        parts.append(f"{request.memory_mib} MiB")
    elif request.memory_percent:
        parts.append(f"{request.memory_percent} % of the memory")
    if request.cores:
        parts.append(f"{request.cores} cores")
    each = f", each {' and '.join(parts)}" if parts else ""
    return f"{request.count} {request.word}{each}"


def have(usages: Collection[DeviceUsage]) -> str:
    """Return the most that is free on any one device, amount by amount."""
    if not usages:
        return "no devices"
    if not any(usage.device.memory_mib for usage in usages):
        return f"{len(usages)} devices"
    memory_mib = max(usage.device.memory_mib - usage.used_mib for usage in usages)
    cores = max(usage.device.cores - usage.used_cores for usage in usages)
    return f"{len(usages)} devices, at most {memory_mib} MiB and {cores} cores free on one"
