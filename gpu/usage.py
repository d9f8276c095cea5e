"""Reads what each GPU of the node does now: memory used, how busy it is, which processes run.

Each figure of each GPU is asked for alone, because single questions fail: a GPU with partitions
tells no utilisation, drivers answer one query with an unknown error for a while, one lost GPU
fails all its questions. What failed is named beside what did not, and no figure stands for
another. Memory and utilisation of a GPU are those of all its users; pids are the host's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from gpu.errors import NvmlError
from gpu.model import GpuUuid
from gpu.nvml import Nvml
from gpu.scan import ABSENT

_T = TypeVar("_T")

_PERCENT_MAX: Final = 100
_NO_V2: Final = ABSENT | {"ARGUMENT_VERSION_MISMATCH"}
_MEMORY_V2: Final = 0x02000028


class Figure(StrEnum):
    """What is asked of a GPU."""

    INDEX = "index"
    NAME = "name"
    MEMORY = "memory"
    UTILIZATION = "utilization"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process on a GPU; one that computes and draws is there once."""

    pid: int
    """In the host's numbers."""
    memory_bytes: int | None
    """`None` where the driver does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUsage:
    """What one GPU does; what is `None` is not known."""

    uuid: GpuUuid
    index: int | None = None
    """NVML's, for labels."""
    name: str | None = None
    memory_used_bytes: int | None = None
    """With what the driver keeps, where it counts that apart."""
    utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    failures: Mapping[Figure, str]
    """NVML's word for each figure that should be there and is not."""


def read_usage(nvml: Nvml) -> tuple[GpuUsage, ...]:
    """Return what each GPU does that was read last, sorted by UUID; `StoppedError` on the way out.

    A GPU that answers nothing is there with its failures.
    """
    return tuple(
        _Asked(nvml, handle).usage(uuid) for uuid, handle in sorted(nvml.handles().items())
    )


class UsageReader:
    """Reads with the session of another, who opens and closes it."""

    def __init__(self, session: Callable[[], Nvml | None]) -> None:
        """Prepare; *session* returns `None` while there is none."""
        self._session = session

    def read(self) -> tuple[GpuUsage, ...]:
        """Return what each GPU does; `NvmlError` while there is no session."""
        nvml = self._session()
        if nvml is None:
            raise NvmlError("UNINITIALIZED", "nvmlInitWithFlags")
        return read_usage(nvml)


class _Asked:
    def __init__(self, nvml: Nvml, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._failures: dict[Figure, str] = {}

    def usage(self, uuid: GpuUuid) -> GpuUsage:
        rates = self._or_none(Figure.UTILIZATION, self._rates) or (None, None)
        return GpuUsage(
            uuid=uuid,
            index=self._or_none(Figure.INDEX, lambda: int(self._ask("nvmlDeviceGetIndex"))),
            name=self._or_none(Figure.NAME, lambda: str(self._ask("nvmlDeviceGetName"))),
            memory_used_bytes=self._or_none(Figure.MEMORY, self._memory),
            utilization_percent=rates[0],
            memory_utilization_percent=rates[1],
            processes=self._or_none(Figure.PROCESSES, self._processes),
            failures=self._failures,
        )

    def _ask(self, function: str, **options: Any) -> Any:
        return self._nvml.call(function, self._handle, **options)

    def _or_none(self, figure: Figure, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except NvmlError as error:
            # What a GPU does not have is no failure.
            if error.reason not in ABSENT:
                self._failures[figure] = error.reason
            return None

    def _rates(self) -> tuple[int, int]:
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        return min(_PERCENT_MAX, int(rates.gpu)), min(_PERCENT_MAX, int(rates.memory))

    def _memory(self) -> int:
        try:
            return int(self._ask("nvmlDeviceGetMemoryInfo", version=_MEMORY_V2).used)
        except NvmlError as error:
            if error.reason not in _NO_V2:
                raise
            return int(self._ask("nvmlDeviceGetMemoryInfo").used)

    def _processes(self) -> tuple[GpuProcess, ...]:
        listed = self._listed("nvmlDeviceGetComputeRunningProcesses")
        try:
            listed += self._listed("nvmlDeviceGetGraphicsRunningProcesses")
        except NvmlError as error:
            # Nothing draws on such a GPU.
            if error.reason not in ABSENT:
                raise
        found: dict[int, int | None] = {}
        for each in listed:
            # Both lists tell the same memory of a process that is in both.
            known, memory = found.get(int(each.pid)), each.usedGpuMemory
            found[int(each.pid)] = known if memory is None else max(int(memory), known or 0)
        return tuple(GpuProcess(pid=pid, memory_bytes=found[pid]) for pid in sorted(found))

    def _listed(self, function: str) -> list[Any]:
        # By version: the binding answers for a function without one with an error of its own.
        try:
            return list(self._ask(f"{function}_v3"))
        except NvmlError as error:
            if error.reason != "FUNCTION_NOT_FOUND":
                raise
        return list(self._ask(f"{function}_v2"))
