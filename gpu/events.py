"""XID events of GPUs, from an event set of NVML.

- Only what happens after its registration is reported of a GPU, so sets live as long as they can.
- A driver without events for a GPU says `NOT_SUPPORTED`, or offers no XID among the kinds; the set
  stays usable. After `UNKNOWN` from a registration it is not (nvml.h: nvmlDeviceRegisterEvents).
- A wait ends with `TIMEOUT` when nothing came, and may do so before the time is over.
- An event carries the handle that the GPU was registered by. A GPU that fell off the bus may not
  tell its UUID any more, so the handles are remembered.
- In MIG mode the event names the partition that it hit, or none if it hit the whole GPU. Processes
  without privileges are told only of the latter (nvml.h: nvmlEventSetWait_v2).
"""

import ctypes
from typing import Any, Final

from gpu.errors import NvmlError
from gpu.health import XidEvent
from gpu.model import GpuUuid
from gpu.scan import ABSENT, Call

_XID: Final = 0x8
_NO_INSTANCE: Final = 0xFFFFFFFF
_MS_PER_S: Final = 1000


class XidEvents:
    """An event set, for one thread, which must close it before it ends the session."""

    def __init__(self, call: Call, *, blocking_call: Call) -> None:
        """Make the set by *call* and wait by *blocking_call*; raises `NvmlError`."""
        self._call = call
        self._blocking_call = blocking_call
        self._uuids: dict[int, GpuUuid] = {}
        self._set = call("nvmlEventSetCreate")

    @property
    def uuids(self) -> frozenset[GpuUuid]:
        """The GPUs whose XIDs are reported."""
        return frozenset(self._uuids.values())

    def register(self, uuid: GpuUuid, handle: Any) -> bool:
        """Have XIDs of a GPU reported; return whether it can report any; raises `NvmlError`."""
        try:
            if not self._call("nvmlDeviceGetSupportedEventTypes", handle) & _XID:
                return False
            self._call("nvmlDeviceRegisterEvents", handle, _XID, self._set)
        except NvmlError as error:
            if error.reason in ABSENT:
                return False
            raise
        self._uuids[_number(handle)] = uuid
        return True

    def forget(self, uuid: GpuUuid) -> None:
        """Take it that the registration of a GPU ended with the GPU."""
        self._uuids = {number: known for number, known in self._uuids.items() if known != uuid}

    def wait(self, timeout_s: float) -> XidEvent | None:
        """Return the next XID, `None` if none came in *timeout_s*; raises `NvmlError`."""
        timeout_ms = int(timeout_s * _MS_PER_S)
        try:
            data = self._blocking_call("nvmlEventSetWait_v2", self._set, timeout_ms)
        except NvmlError as error:
            if error.reason == "TIMEOUT":
                return None
            raise
        if data.eventType != _XID:
            return None
        return XidEvent(
            gpu_uuid=self._uuid(data.device),
            xid=int(data.eventData),
            gpu_instance_id=_instance(data.gpuInstanceId),
            compute_instance_id=_instance(data.computeInstanceId),
        )

    def close(self) -> None:
        """Free the set; raises `NvmlError`."""
        self._call("nvmlEventSetFree", self._set)

    def _uuid(self, handle: Any) -> GpuUuid | None:
        known = self._uuids.get(_number(handle))
        if known is not None:
            return known
        try:
            return GpuUuid(self._call("nvmlDeviceGetUUID", handle))
        except NvmlError:
            return None


def _number(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _instance(number: int) -> int | None:
    return None if number == _NO_INSTANCE else int(number)
