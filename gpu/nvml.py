"""The one place that speaks to NVIDIA's management library.

Facts of the outside world that are kept here and nowhere else:

- The binding loads `libnvidia-ml.so.1` by name, once, and takes no path. The driver root's
  library is put in its place instead, which also follows an update of the driver: the library
  of the old version refuses the new kernel module for ever (`LIB_RM_VERSION_MISMATCH`).
- A node whose GPUs are all passed through to guests fails a plain init; `NO_GPUS` does not.
- Handles are slow to fetch while other calls run, so there is one session per process and its
  calls run one at a time (kubernetes-sigs/dra-driver-nvidia-gpu: nvlib.go).
- `nvmlSystemGetCudaDriverVersion_v2` opens `libcuda.so.1` by name, which a process outside the
  driver root cannot; the older call answers with the newest CUDA that the library knows.
- Old drivers lack newer symbols; `NOT_SUPPORTED` is an answer, not a failure, wherever a GPU
  may lack the thing asked for.
- The kernel module cannot be unloaded while a session is open. Whoever has one closes it quickly:
  once `stopping` says so, nothing but the end is asked of NVML, even in the middle of a scan.
- Indexes are stable within a session, so a GPU that does not tell its UUID any more can be named.
"""

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pynvml

from gpu import scan
from gpu.errors import DriverNotLoadedError, LibraryNotFoundError, NvmlError, StoppedError
from gpu.events import XidEvents
from gpu.health import History, Reading
from gpu.model import GpuFault, GpuUuid, Inventory, PciBusId
from gpu.scan import ReadGpu
from gpu.sysfs import SYSFS

_WORDS: Final[dict[int, str]] = {
    value: name.removeprefix("NVML_ERROR_")
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_")
}
_DECISIVE: Final[dict[str, type[NvmlError]]] = {
    "LIBRARY_NOT_FOUND": LibraryNotFoundError,
    "DRIVER_NOT_LOADED": DriverNotLoadedError,
}
# What ends a session is asked even when nothing else is.
_ENDING: Final = frozenset({"nvmlShutdown", "nvmlEventSetFree"})

_Identity = tuple[GpuUuid | None, PciBusId | None]


class Nvml:
    """A session with the driver; open it once per process, use it from any thread."""

    def __init__(
        self,
        library: Path | None = None,
        *,
        sysfs: Path = SYSFS,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare; once *stopping* is true, all calls but the last raise `StoppedError`."""
        self._library = library
        self._sysfs = sysfs
        self._stopping = stopping
        self._lock = threading.RLock()
        self._identities: tuple[_Identity, ...] = ()
        self._handles: dict[GpuUuid, Any] = {}

    def open(self) -> Self:
        """Load the library and start the session, or raise an `NvmlError`."""
        with self._lock:
            self._identities = ()
            self._load()
            self.call("nvmlInitWithFlags", pynvml.NVML_INIT_FLAG_NO_GPUS)
        return self

    def close(self) -> None:
        """End the session; the library stays mapped, as it cannot be taken out again."""
        with self._lock:
            self.call("nvmlShutdown")

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def inventory(self) -> Inventory:
        """Read every GPU; one that cannot be read becomes a fault beside the others.

        What ails a GPU is what the driver says now: XIDs have to be waited for.
        """
        reading = self.read()
        return History().after(reading, now_s=0.0, recovery_s=0.0).diagnosed(reading.inventory)

    def read(self) -> Reading:
        """Read every GPU, and what the driver advises for it."""
        with self._lock:
            driver = self.call("nvmlSystemGetDriverVersion")
            cuda = self._cuda_version()
            found = [
                scan.read_gpu(self.call, index, versions=(driver, cuda), sysfs_root=self._sysfs)
                for index in range(scan.counted(self.call, "nvmlDeviceGetCount"))
            ]
            self._identities = _identities(found, self._identities)
        faults = zip(found, self._identities, strict=True)
        read = [each for each in found if isinstance(each, ReadGpu)]
        self._handles = {each.gpu.uuid: each.handle for each in read}
        inventory = Inventory(
            driver_version=driver,
            cuda_driver_version=cuda,
            gpus=tuple(sorted((each.gpu for each in read), key=lambda gpu: gpu.pci_bus_id)),
            faults=tuple(
                replace(each, uuid=uuid, pci_bus_id=bus_id)
                for each, (uuid, bus_id) in faults
                if isinstance(each, GpuFault)
            ),
        )
        return Reading(inventory=inventory, actions={each.gpu.uuid: each.action for each in read})

    def events(self) -> XidEvents:
        """Return a new event set; it may wait while other calls run."""
        return XidEvents(self.call, blocking_call=self._call)

    def handles(self) -> Mapping[GpuUuid, Any]:
        """Return the handle of each GPU that was read last."""
        return self._handles

    def call(self, function: str, *arguments: Any, **options: Any) -> Any:
        """Call one function of the binding; its error comes back as ours."""
        with self._lock:
            return self._call(function, *arguments, **options)

    def _call(self, function: str, *arguments: Any, **options: Any) -> Any:
        if self._stopping() and function not in _ENDING:
            raise StoppedError
        try:
            return getattr(pynvml, function)(*arguments, **options)
        except pynvml.NVMLError as error:
            raise _translated(error, function) from error
        except UnicodeDecodeError as error:
            # A GPU with a broken infoROM answers with bytes that are no text.
            raise NvmlError("UNREADABLE_TEXT", function) from error

    def _load(self) -> None:
        """Put the library at our path into the binding, unless it has that one or a stand-in."""
        current, wanted = pynvml.nvmlLib, str(self._library)
        is_stand_in = current is not None and not isinstance(current, ctypes.CDLL)
        if self._library is None or is_stand_in or getattr(current, "_name", None) == wanted:
            return
        try:
            pynvml.nvmlLib = ctypes.CDLL(wanted)
        except OSError as error:
            raise LibraryNotFoundError("LIBRARY_NOT_FOUND", "dlopen", str(error)) from error
        pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001  # the old library's symbols

    def _cuda_version(self) -> str:
        try:
            version = self.call("nvmlSystemGetCudaDriverVersion_v2")
        except NvmlError as error:
            if error.reason not in {"LIBRARY_NOT_FOUND", "FUNCTION_NOT_FOUND"}:
                raise
            version = self.call("nvmlSystemGetCudaDriverVersion")
        return f"{version // 1000}.{version % 1000 // 10}"


def _identities(
    found: Sequence[ReadGpu | GpuFault], before: tuple[_Identity, ...]
) -> tuple[_Identity, ...]:
    """Return who is at each index; *before* helps only if all who answer are where they were."""
    now = tuple(_identity(each) for each in found)
    if len(now) != len(before) or any(map(_contradicts, now, before)):
        return now
    merged = tuple(
        (uuid or before_uuid, bus_id or before_bus_id)
        for (uuid, bus_id), (before_uuid, before_bus_id) in zip(now, before, strict=True)
    )
    uuids = [uuid for uuid, _ in merged if uuid is not None]
    return merged if len(uuids) == len(set(uuids)) else now


def _identity(found: ReadGpu | GpuFault) -> _Identity:
    known = found.gpu if isinstance(found, ReadGpu) else found
    return known.uuid, known.pci_bus_id


def _contradicts(now: _Identity, before: _Identity) -> bool:
    return any(
        None not in {one, other} and one != other for one, other in zip(now, before, strict=True)
    )


def _translated(error: Any, function: str) -> NvmlError:
    reason = _WORDS.get(error.value, f"ERROR_{error.value}")
    by_name = reason == "LIBRARY_NOT_FOUND" and pynvml.nvmlLib is None
    detail = "tried libnvidia-ml.so.1 by name" if by_name else ""
    return _DECISIVE.get(reason, NvmlError)(reason, function, detail)
