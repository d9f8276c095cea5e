"""What the simulated driver of one node knows at this moment.

The GPU file is read again whenever it changed, so editing it is how a person or a test breaks a
GPU. An edit that is wrong changes nothing and is logged. Handles stay valid over edits, as they
do in NVML: one whose GPU is gone answers `GPU_IS_LOST`, one whose partition is gone `NOT_FOUND`.
"""

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import structlog

from sim import gpufile, hardware
from sim.gpufile import GpuFile, GpuFileError
from sim.hardware import MigInstance, SimGpu
from sim.instancestore import InstanceStore, with_made
from sim.nvml_memory import NvmlFailureError

log = structlog.get_logger(__name__)

_T = TypeVar("_T")

_FIRST_HANDLE = 0x1000
_Stamp = tuple[int, int, int] | None
_VERSION_SUFFIX = re.compile(r"_v\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a device handle stands for: a GPU, or one of its partitions."""

    gpu: SimGpu
    instance: MigInstance | None = None

    @property
    def uuid(self) -> str:
        """Return the UUID of the partition or else of the GPU."""
        return self.gpu.uuid if self.instance is None else self.instance.uuid


class Node:
    """The GPUs of one GPU file, read again when the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.made = InstanceStore(path)
        self._lock = threading.RLock()
        self._stamp: tuple[_Stamp, _Stamp] | None = None
        self._handles: dict[str, int] = {}
        self._uuids: dict[int, str] = {}
        self.sessions = 0
        self._load()

    def refresh(self) -> None:
        """Take over a changed file; keep the last good state if the change is wrong."""
        with self._lock:
            stamp = self._stat()
            if stamp[0] is None or stamp == self._stamp:
                return
            try:
                self._load()
            except GpuFileError as error:
                self._stamp = stamp
                log.warning("gpu file rejected", path=str(self._path), error=str(error))

    def fail_if_told(self, symbol: str, gpu: SimGpu | None = None) -> None:
        """Raise the error that the file injects into *symbol*, for *gpu* or the whole node."""
        errors = self.file.errors if gpu is None else gpu.entry.errors
        reason = _injected(errors, symbol)
        if reason is not None:
            raise NvmlFailureError(reason)

    def delay_if_told(self, symbol: str) -> None:
        """Take as long for *symbol* as the file says."""
        delay_s = _injected(self.file.delays_s, symbol)
        if delay_s is not None:
            time.sleep(delay_s)

    def handle(self, uuid: str) -> int:
        """Return the handle of *uuid*, the same one each time."""
        with self._lock:
            known = self._handles.setdefault(uuid, _FIRST_HANDLE + 16 * len(self._handles))
            self._uuids[known] = uuid
            return known

    def name(self, handle: int) -> str:
        """Return what *handle* was made for, or fail if it is none."""
        with self._lock:
            name = self._uuids.get(handle)
        if name is None:
            raise NvmlFailureError("INVALID_ARGUMENT")
        return name

    def at(self, handle: int) -> Target:
        """Return what *handle* stands for, or fail if that is gone."""
        uuid = self.name(handle)
        found = self.find(uuid)
        if found is None:
            raise NvmlFailureError("NOT_FOUND" if uuid.startswith("MIG-") else "GPU_IS_LOST")
        return found

    def find(self, uuid: str) -> Target | None:
        """Return the GPU or partition with *uuid*, if the file has it."""
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return Target(gpu=gpu)
            for instance in gpu.mig:
                if instance.uuid == uuid:
                    return Target(gpu=gpu, instance=instance)
        return None

    def _load(self) -> None:
        stamp = self._stat()
        file: GpuFile = gpufile.load(self._path)
        made = self.made.read()
        self.gpus = tuple(with_made(gpu, made) for gpu in hardware.gpus(file))
        self.file = file
        self._stamp = stamp

    def _stat(self) -> tuple[_Stamp, _Stamp]:
        return _stamp(self._path), _stamp(self.made.path)


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _injected(told: Mapping[str, _T], symbol: str) -> _T | None:
    for key in (symbol, _VERSION_SUFFIX.sub("", symbol), "all"):
        if key in told:
            return told[key]
    return None
