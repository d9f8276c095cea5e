"""NVIDIA's management library without a GPU, below the real binding.

The binding calls symbols of a loaded library. This puts an object with those symbols in the
library's place, so the binding's own marshalling, error classes and handling of missing symbols
all run. Nothing of this is imported by the node agent: a launcher that wants simulated GPUs
calls `install` before the agent starts.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pynvml

from sim import nvml_devices, nvml_instances, nvml_links, nvml_mig
from sim.nvml_events import Events
from sim.nvml_memory import NvmlFailureError, handle_number
from sim.nvml_node import Node

# What happens inside a process can be seen from outside only by what it logs. Programs that do
# not set up their logs, such as those that print JSON, must not print this.
log = logging.getLogger(__name__)

_SUCCESS: Final = 0
_Symbol = Callable[..., int]
# A wait must not keep other threads from their calls.
_UNLOCKED: Final = "nvmlEventSetWait_v2"


def install(path: Path) -> "Library":
    """Let the binding in this process see the GPUs of the file at *path*.

    `sim.gpufile.GpuFileError` if the file is wrong.
    """
    library = Library(path)
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - found symbols are kept there
    return library


def uninstall() -> None:
    """Let the binding load the machine's own library again."""
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001


class Library:
    """Has the symbols of `libnvidia-ml.so` as attributes, less those the file calls missing."""

    def __init__(self, path: Path) -> None:
        self.node = Node(path)
        self._events = Events()
        self._lock = threading.RLock()
        events: dict[str, Callable[..., None]] = {
            "nvmlEventSetCreate": self._events.create,
            "nvmlEventSetFree": self._events.free,
            "nvmlEventSetWait_v2": self._events.wait,
        }
        device_events: dict[str, Callable[..., None]] = {
            "nvmlDeviceGetSupportedEventTypes": self._events.supported,
            "nvmlDeviceRegisterEvents": self._events.register,
        }
        sessions: dict[str, Callable[..., None]] = {
            "nvmlInit_v2": self._init,
            "nvmlInitWithFlags": self._init,
            "nvmlShutdown": self._shutdown,
        }
        self._system = {**sessions, **nvml_devices.SYSTEM, **events}
        self._device = {**nvml_devices.DEVICE, **nvml_mig.DEVICE, **nvml_links.DEVICE}
        self._device |= device_events | nvml_instances.DEVICE
        self._instance = nvml_instances.INSTANCE

    def __getattr__(self, symbol: str) -> _Symbol | Callable[[int], bytes]:
        if symbol == "nvmlErrorString":
            return lambda code: f"error {code}".encode()
        if symbol not in self.symbols() or symbol in self.node.file.missing:
            raise AttributeError(symbol)
        return self._symbol(symbol)

    def symbols(self) -> frozenset[str]:
        """Return the names of all symbols that a new driver has."""
        return frozenset({*self._system, *self._device, *self._instance})

    def _symbol(self, symbol: str) -> _Symbol:
        def called(*arguments: Any) -> int:
            try:
                if symbol == _UNLOCKED:
                    self._call(symbol, arguments)
                else:
                    with self._lock:
                        self._call(symbol, arguments)
            except NvmlFailureError as failure:
                return int(getattr(pynvml, f"NVML_ERROR_{failure.reason}"))
            return _SUCCESS

        return called

    def _call(self, symbol: str, arguments: tuple[Any, ...]) -> None:
        self.node.refresh()
        self.node.delay_if_told(symbol)
        self.node.fail_if_told(symbol)
        if self.node.sessions == 0 and not symbol.startswith("nvmlInit"):
            raise NvmlFailureError("UNINITIALIZED")
        if symbol in self._system:
            self._system[symbol](self.node, *arguments)
            return
        handle = handle_number(arguments[0])
        if symbol in self._instance:
            gpu, instance = nvml_instances.at(self.node, handle)
            self.node.fail_if_told(symbol, gpu)
            self._instance[symbol](self.node, gpu, instance, *arguments[1:])
            return
        device = self.node.at(handle)
        self.node.fail_if_told(symbol, device.gpu)
        self._device[symbol](self.node, device, *arguments[1:])

    def _init(self, node: Node, *_flags: Any) -> None:
        node.sessions += 1
        log.debug("simulated nvml session begun")

    def _shutdown(self, node: Node) -> None:
        node.sessions -= 1
        if node.sessions == 0:
            log.debug("last simulated nvml session ended")
