"""Makes and destroys MIG devices: one GPU instance at one place, filled by one compute instance.

NVML knows the MIG device that comes of the two by a slot of its GPU only, so its UUID is found by
the two numbers. A number is given again once its instance is gone: what names an instance for
longer is the MIG device's UUID, which is new each time (NVML: `nvmlDeviceGetMigDeviceHandleByIndex`
and "Multi Instance GPU Management" of the API reference).
"""

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from gpu.errors import NvmlError
from gpu.instances import profile_number
from gpu.scan import Call

_INSTANCES_MAX: Final = 64
_SHARED_ENGINES: Final = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
_GONE: Final = "NOT_FOUND"
_ONLY_COMPUTE: Final = 0
"""Of the compute instance that fills its GPU instance, the first and only one there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an instance lies on a GPU."""

    slices: str
    """Its compute slices as profiles are named by them, such as `1g`."""
    start: int
    size: int
    """In slices of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeInstance:
    """A GPU instance that exists."""

    place: Place
    gpu_instance_id: int
    mig_uuid: str | None
    """Of the MIG device that its first compute instance makes; `None` where it has none."""


def make_gpu_instance(call: Call, handle: Any, place: Place) -> int:
    """Make a GPU instance at *place* and return its number; raises `NvmlError`."""
    placement = pynvml.c_nvmlGpuInstancePlacement_t(place.start, place.size)
    profile_id = _profile_id(call, handle, place.slices)
    made = call(
        "nvmlDeviceCreateGpuInstanceWithPlacement", handle, profile_id, ctypes.byref(placement)
    )
    return int(call("nvmlGpuInstanceGetInfo", made).id)


def make_compute_instance(call: Call, handle: Any, place: Place, gpu_instance_id: int) -> int:
    """Fill a GPU instance and return the compute instance's number; raises `NvmlError`."""
    instance = call("nvmlDeviceGetGpuInstanceById", handle, gpu_instance_id)
    profile = call(
        "nvmlGpuInstanceGetComputeInstanceProfileInfo",
        instance,
        # Compute profiles have the same numbers as those of GPU instances with as many slices.
        profile_number(place.slices),
        _SHARED_ENGINES,
        version=1,
    )
    made = call("nvmlGpuInstanceCreateComputeInstance", instance, profile.id)
    return int(call("nvmlComputeInstanceGetInfo_v2", made).id)


def mig_uuid(call: Call, handle: Any, gpu_instance_id: int, compute_instance_id: int) -> str | None:
    """Return the UUID of the MIG device of two instances; raises `NvmlError`."""
    for slot in range(call("nvmlDeviceGetMaxMigDeviceCount", handle)):
        try:
            device = call("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot)
        except NvmlError as error:
            if error.reason == _GONE:
                continue
            raise
        ids = (
            call("nvmlDeviceGetGpuInstanceId", device),
            call("nvmlDeviceGetComputeInstanceId", device),
        )
        if ids == (gpu_instance_id, compute_instance_id):
            return str(call("nvmlDeviceGetUUID", device))
    return None


def instances_of(call: Call, handle: Any, slices: str) -> tuple[MadeInstance, ...]:
    """Return all GPU instances of a profile, whoever made them; raises `NvmlError`."""
    profile_id = _profile_id(call, handle, slices)
    found = (pynvml.c_nvmlGpuInstance_t * _INSTANCES_MAX)()
    count = ctypes.c_uint(len(found))
    call("nvmlDeviceGetGpuInstances", handle, profile_id, found, ctypes.byref(count))
    infos = [call("nvmlGpuInstanceGetInfo", found[number]) for number in range(count.value)]
    return tuple(
        MadeInstance(
            place=Place(
                slices=slices, start=int(each.placement.start), size=int(each.placement.size)
            ),
            gpu_instance_id=int(each.id),
            mig_uuid=mig_uuid(call, handle, int(each.id), _ONLY_COMPUTE),
        )
        for each in infos
    )


def destroy(call: Call, handle: Any, gpu_instance_id: int) -> None:
    """Destroy a GPU instance with its compute instance; raises `NvmlError`.

    One that a program uses is `IN_USE`. What was destroyed before is no error.
    """
    try:
        instance = call("nvmlDeviceGetGpuInstanceById", handle, gpu_instance_id)
        try:
            compute = call("nvmlGpuInstanceGetComputeInstanceById", instance, _ONLY_COMPUTE)
        except NvmlError as error:
            if error.reason != _GONE:
                raise
        else:
            call("nvmlComputeInstanceDestroy", compute)
        call("nvmlGpuInstanceDestroy", instance)
    except NvmlError as error:
        if error.reason != _GONE:
            raise


def _profile_id(call: Call, handle: Any, slices: str) -> int:
    number = profile_number(slices)
    return int(call("nvmlDeviceGetGpuInstanceProfileInfo", handle, number, version=1).id)
