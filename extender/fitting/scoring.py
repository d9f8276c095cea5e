"""How full devices and nodes are, as HAMi weighs it.

A device is weighed with the request only where the node registered it under the vendor's own word
(HAMi v2.10: `pkg/scheduler/policy`), which no NVIDIA GPU is. HAMi reckons in single precision, in
which what is equal on paper is equal; so a device's weight is rounded to that here.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from extender.model import DeviceUsage
from hami.preferences import ScoringWeights
from hami.requests import DeviceRequest

_WEIGHT: Final = 10
EVEN: Final = ScoringWeights(slot=1, core=1, memory=1)
_SINGLE: Final = Struct("f")


def device_score(
    usage: DeviceUsage, requests: Iterable[DeviceRequest], weights: ScoringWeights = EVEN
) -> float:
    """Return how full *usage* would be with *requests*; 0 for a device without a size."""
    device = usage.device
    if not (device.count and device.cores and device.memory_mib):
        return 0.0
    slots, cores, memory_mib = usage.used_slots, usage.used_cores, usage.used_mib
    for request in requests:
        if request.word == device.type:
            slots += 1
            cores += request.cores
            memory_mib += memory_of(request, device.memory_mib)
    exact = _WEIGHT * (
        weights.slot * (slots / device.count)
        + weights.core * (cores / device.cores)
        + weights.memory * (memory_mib / device.memory_mib)
    )
    single: float = _SINGLE.unpack(_SINGLE.pack(min(exact, 3e38)))[0]
    return single


def memory_of(request: DeviceRequest, total_mib: int) -> int:
    """Return the MiB that *request* takes of a device of *total_mib*."""
    if request.memory_mib is not None:
        return request.memory_mib
    return total_mib * (request.memory_percent or 0) // 100


def node_score(used: tuple[int, int, int], total: tuple[int, int, int]) -> float:
    """Return how full a node is: slots, MiB and cores of all its devices, used and in all."""
    if not all(total):
        return 0.0
    return _WEIGHT * (used[0] / total[0] + used[2] / total[2] + used[1] / total[1])


def node_sums(devices: Iterable[Iterable[DeviceUsage]]) -> tuple[tuple[int, int, int], ...]:
    """Return what `node_score` needs of a node's devices, used and in all."""
    used_slots = used_mib = used_cores = slots = mib = cores = 0
    for of_vendor in devices:
        for usage in of_vendor:
            device = usage.device
            used_slots += usage.used_slots
            used_mib += usage.used_mib
            used_cores += usage.used_cores
            slots += device.count
            mib += device.memory_mib
            cores += device.cores
    return (used_slots, used_mib, used_cores), (slots, mib, cores)
