"""The event functions of `libnvidia-ml.so`.

An XID that is added to the GPU file is delivered once, to whoever waits with that GPU registered;
what the file has when a GPU is registered happened before, and is not delivered, as with NVML.
Waiting really blocks and a wait without an event ends in `TIMEOUT`, because a loop around it would
spin otherwise.
"""

import ctypes
import threading
import time
from collections import defaultdict
from typing import Any, Final

import pynvml

from sim.gpufile import XidEntry
from sim.hardware import SimGpu
from sim.nvml_memory import NvmlFailureError, handle_number, number, target, write, write_handle
from sim.nvml_node import Node, Target

_POLL_S: Final = 0.05
_NO_INSTANCE: Final = 0xFFFFFFFF
_REMOVED_INSTANCE: Final = 0xFE
_XID: Final = pynvml.nvmlEventTypeXidCriticalError


class Events:
    """Event sets of one process and what was delivered to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_set = 0
        self._sets: dict[int, dict[str, int]] = {}
        self._delivered: dict[str, list[XidEntry]] = defaultdict(list)

    def create(self, _node: Node, result: Any) -> None:
        """Answer with a new event set."""
        with self._lock:
            self._last_set += 1
            self._sets[self._last_set] = {}
            write_handle(result, self._last_set)

    def free(self, _node: Node, event_set: Any) -> None:
        """Forget an event set."""
        with self._lock:
            if self._sets.pop(handle_number(event_set), None) is None:
                raise NvmlFailureError("INVALID_ARGUMENT")

    def supported(self, _node: Node, device: Target, result: Any) -> None:
        """Answer with the kinds of event that a GPU can report."""
        if device.instance is not None:
            raise NvmlFailureError("NOT_SUPPORTED")
        xids = _XID if device.gpu.entry.reports_xids else 0
        write(result, xids | pynvml.nvmlEventTypeDoubleBitEccError)

    def register(self, _node: Node, device: Target, kinds: Any, event_set: Any) -> None:
        """Have *event_set* report the *kinds* of event of a GPU."""
        if device.instance is not None or (
            number(kinds) & _XID and not device.gpu.entry.reports_xids
        ):
            raise NvmlFailureError("NOT_SUPPORTED")
        registered = self._registered(event_set)
        with self._lock:
            self._delivered[device.gpu.uuid] = list(device.gpu.entry.xids)
            registered[device.gpu.uuid] = registered.get(device.gpu.uuid, 0) | number(kinds)

    def wait(self, node: Node, event_set: Any, result: Any, timeout_ms: Any) -> None:
        """Block until an XID arrives or the time is over."""
        registered = self._registered(event_set)
        deadline = time.monotonic() + number(timeout_ms) / 1000
        while True:
            node.refresh()
            found = self._next(node, registered)
            if found is not None:
                gpu, entry = found
                _fill(target(result), node.handle(gpu.uuid), gpu, entry)
                return
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise NvmlFailureError("TIMEOUT")
            time.sleep(min(left_s, _POLL_S))

    def _registered(self, event_set: Any) -> dict[str, int]:
        with self._lock:
            registered = self._sets.get(handle_number(event_set))
        if registered is None:
            raise NvmlFailureError("INVALID_ARGUMENT")
        return registered

    def _next(self, node: Node, registered: dict[str, int]) -> tuple[SimGpu, XidEntry] | None:
        with self._lock:
            for gpu in node.gpus:
                if not registered.get(gpu.uuid, 0) & _XID:
                    continue
                delivered, written = self._delivered[gpu.uuid], gpu.entry.xids
                if written[: len(delivered)] != delivered:
                    delivered.clear()
                if len(written) > len(delivered):
                    delivered.append(written[len(delivered)])
                    return gpu, delivered[-1]
        return None


def _fill(data: Any, handle: int, gpu: SimGpu, entry: XidEntry) -> None:
    data.device = ctypes.cast(ctypes.c_void_p(handle), pynvml.c_nvmlDevice_t)
    data.eventType = _XID
    data.eventData = entry.xid
    data.gpuInstanceId = data.computeInstanceId = _NO_INSTANCE
    if entry.partition is not None:
        data.gpuInstanceId, data.computeInstanceId = _instance(gpu, entry.partition)


def _instance(gpu: SimGpu, uuid: str) -> tuple[int, int]:
    for each in gpu.mig:
        if each.uuid == uuid:
            return each.gpu_instance_id, each.compute_instance_id
    return _REMOVED_INSTANCE, 0
