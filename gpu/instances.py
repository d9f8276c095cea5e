"""What instances a GPU could be partitioned into: NVML's profiles and where each may lie.

NVML numbers profiles by the compute slices that an instance has, and answers for each model with
what such an instance would be. Those with media engines or with more memory have numbers of their
own, and are of no use here: HAMi names profiles by their slices alone.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from gpu.errors import NvmlError
from gpu.model import GpuUuid
from gpu.scan import ABSENT, Call

_NUMBERS: Final = {"1g": 0, "2g": 1, "3g": 2, "4g": 3, "7g": 4, "8g": 5, "6g": 6}
# What a GPU answers that cannot be partitioned, or not so.
_NONE: Final = ABSENT | {"INVALID_ARGUMENT", "NOT_FOUND"}
_PLACES_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceProfile:
    """One kind of instance that a model can have."""

    slices: str
    """Its compute slices as profiles are named by them, such as `1g`."""
    memory_mib: int
    multiprocessors: int
    slice_count: int
    instances: int
    """How many fit on the GPU."""
    placements: tuple[tuple[int, int], ...]
    """Start and size, in slices of memory."""


Profiles = Mapping[GpuUuid, tuple[InstanceProfile, ...]]
"""Of the GPUs that could be asked; a GPU that cannot be partitioned has none."""


def read_profiles(call: Call, handles: Mapping[GpuUuid, Any]) -> Profiles:
    """Ask each GPU; one that fails is left out."""
    found = dict[GpuUuid, tuple[InstanceProfile, ...]]()
    for uuid, handle in handles.items():
        try:
            asked = [_profile(call, handle, slices) for slices in _NUMBERS]
        except NvmlError:
            continue
        found[uuid] = tuple(each for each in asked if each is not None)
    return found


def profile_number(slices: str) -> int:
    """Return NVML's number for profiles of so many slices; `NvmlError` for none that it knows."""
    if slices not in _NUMBERS:
        raise NvmlError("INVALID_ARGUMENT", "nvmlDeviceGetGpuInstanceProfileInfo", slices)
    return _NUMBERS[slices]


def _profile(call: Call, handle: Any, slices: str) -> InstanceProfile | None:
    try:
        # The first version, which all drivers with MIG have.
        info = call("nvmlDeviceGetGpuInstanceProfileInfo", handle, _NUMBERS[slices], version=1)
        placements = _placements(call, handle, info.id)
    except NvmlError as error:
        if error.reason in _NONE:
            return None
        raise
    return InstanceProfile(
        slices=slices,
        memory_mib=int(info.memorySizeMB),
        multiprocessors=int(info.multiprocessorCount),
        slice_count=int(info.sliceCount),
        instances=int(info.instanceCount),
        placements=placements,
    )


def _placements(call: Call, handle: Any, profile_id: int) -> tuple[tuple[int, int], ...]:
    function = "nvmlDeviceGetGpuInstancePossiblePlacements"
    count = ctypes.c_uint(0)
    call(function, handle, profile_id, None, ctypes.byref(count))
    places = (pynvml.c_nvmlGpuInstancePlacement_t * min(count.value, _PLACES_MAX))()
    count = ctypes.c_uint(len(places))
    call(function, handle, profile_id, places, ctypes.byref(count))
    return tuple((int(each.start), int(each.size)) for each in places[: count.value])
