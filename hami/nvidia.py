"""What one container asks of NVIDIA GPUs, by HAMi's rules and with its defaults.

HAMi reads a container twice: its webhook writes defaults into the limits (`MutateAdmission`), its
scheduler then makes a request of them (`GenerateResourceRequests`; HAMi v2.10:
`pkg/device/nvidia/device.go`). Here both are one reading; its edits say what the first would have
written. It differs where HAMi takes what it cannot read for no request at all, clamps it, or gives
the whole of the cores to a container that named the memory it needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from gpu.refusal import Refusal, RefusedError
from hami import amounts
from hami.amounts import Given, Memory
from hami.containers import Container
from hami.deviceconfig import NvidiaConfig
from hami.requests import NVIDIA, DeviceRequest, Edits
from hami.vendors import VendorReading
from hami.wording import shown

ENV_PRIORITY: Final = "CUDA_TASK_PRIORITY"
ENV_CORE_POLICY: Final = "GPU_CORE_UTILIZATION_POLICY"
ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
LEAST_MEMORY_MIB: Final = 512
"""A CUDA context alone takes 300 MiB and more."""
_COUNT_MAX: Final = 2**31 - 1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """The five values as written, read one by one; `None` is absent or refused."""

    count: int | None
    memory: Memory | None
    percent: int | None
    cores: int | None
    priority: int | None


_NOTHING: Final = _Said(count=None, memory=None, percent=None, cores=None, priority=None)


def read(
    container: Container, config: NvidiaConfig, *, least_memory_mib: int = LEAST_MEMORY_MIB
) -> VendorReading:
    """Read what *container* asks for; a smaller share than *least_memory_mib* is a warning."""
    reader = _Reader(container, config)
    if reader.named.isdisjoint(config.keys):
        return VendorReading(edits=reader.edits(_NOTHING, None))
    said = _Said(
        count=reader.take(config.resource_count_name, reader.count),
        memory=reader.take(config.resource_memory_name, reader.memory),
        percent=reader.take(config.resource_memory_percentage_name, reader.percent),
        cores=reader.take(config.resource_core_name, reader.cores),
        priority=reader.take(config.resource_priority_name, reader.priority),
    )
    request = None if reader.reasons else reader.request(said, least_memory_mib)
    if reader.reasons:
        return VendorReading(reasons=tuple(reader.reasons), warnings=tuple(reader.warnings))
    return VendorReading(
        request=request,
        edits=reader.edits(said, request),
        warnings=tuple(reader.warnings),
    )


class _Reader:
    """Collects reasons and warnings of one container."""

    def __init__(self, container: Container, config: NvidiaConfig) -> None:
        self.container = container
        self.config = config
        self.named = amounts.names(container)
        self.reasons: list[Refusal] = []
        self.warnings: list[Refusal] = []
        self.found: dict[str, Given] = {}
        self._plain: dict[str, int] = {}
        """What the number under each key is to HAMi's scheduler."""

    def take(self, resource: str, read: Callable[[Given], _T]) -> _T | None:
        """Return the value of *resource*; a refused one is among the reasons."""
        if not resource or resource not in self.named:
            return None
        try:
            found = amounts.given(self.container, resource)
            if found is None:
                return None
            self.found[resource] = found
            return read(found)
        except RefusedError as error:
            self.reasons.append(error.refusal)
            return None

    def count(self, found: Given) -> int:
        """Return how many devices; a half is better said as a percentage."""
        return self._noted(found, amounts.whole(found, at_most=_COUNT_MAX, hint=self._part_of_gpu))

    def memory(self, found: Given) -> Memory:
        """Return the size of each share."""
        memory = amounts.memory(found, factor=self.config.memory_factor)
        self._noted(found, memory.units)
        if memory.warning:
            self.warnings.append(memory.warning)
        return memory

    def percent(self, found: Given) -> int:
        """Return the percentage; HAMi takes 0 for none."""
        allowed = f"{found.resource} must be 1..100"
        percent = self._noted(found, amounts.whole(found, at_most=100, allowed=allowed))
        if percent == 0:
            self._warn("PercentageIgnored", found, f"{found.resource}: 0 is ignored")
        return percent

    def cores(self, found: Given) -> int:
        """Return the percent of cores."""
        return self._noted(found, amounts.whole(found, at_most=100))

    def priority(self, found: Given) -> int:
        """Return 0 or 1: for HAMi-core all above 0 is low."""
        number = amounts.whole(found, at_most=_COUNT_MAX)
        if number > 1:
            limit = f"{found.resource}: {number} is read as 1, the low priority"
            self._warn("PriorityReadAsLow", found, limit)
        return self._noted(found, min(number, 1))

    def _noted(self, found: Given, number: int) -> int:
        self._plain[found.resource] = number
        return number

    def request(self, said: _Said, least_memory_mib: int) -> DeviceRequest | None:
        """Return the request, with defaults; may add reasons."""
        count = self._count(said)
        if not count:
            self._warn_of_priority_alone()
            return None
        memory_mib, memory_percent = self._size(said)
        if memory_mib is not None and memory_mib < least_memory_mib:
            self._warn_of_small_share(memory_mib, least_memory_mib)
        cores = self._cores(said)
        if said.priority is not None and not 1 <= cores <= 99:
            found = self.found[self.config.resource_priority_name]
            limit = f"{found.resource} has no effect without a core limit of 1..99"
            self._warn("PriorityWithoutEffect", found, limit)
        return DeviceRequest(
            word=NVIDIA,
            count=count,
            memory_mib=memory_mib,
            memory_percent=memory_percent,
            cores=cores,
            priority=said.priority,
        )

    def edits(self, said: _Said, request: DeviceRequest | None) -> Edits:
        """Return what HAMi's webhook would write, and plain numbers for its scheduler."""
        limits, requests, env = self._rewritten(), {}, []
        for key in limits:
            if self.found[key].in_requests:
                requests[key] = limits[key]
        if request:
            if said.count is None:
                limits[self.config.resource_count_name] = str(request.count)
            if said.cores is None and self._is_exclusive(said) and self.config.resource_core_name:
                limits[self.config.resource_core_name] = "100"
        if said.priority is not None:
            env.append((ENV_PRIORITY, str(said.priority)))
        if self.config.gpu_core_policy in {"force", "disable"}:
            env.append((ENV_CORE_POLICY, self.config.gpu_core_policy))
        if request is None and self.config.overwrite_env and self.config.resource_count_name:
            env.append((ENV_VISIBLE_DEVICES, "none"))
        runtime_class = self.config.runtime_class_name if request else ""
        return Edits(
            limits=limits,
            requests=requests,
            env=tuple(env),
            runtime_class_name=runtime_class or None,
        )

    def _rewritten(self) -> dict[str, str]:
        return {
            key: str(self._plain[key])
            for key, found in self.found.items()
            if not amounts.is_plain(found)
        }

    def _count(self, said: _Said) -> int:
        config = self.config
        sized = (
            config.resource_core_name,
            config.resource_memory_name,
            config.resource_memory_percentage_name,
        )
        others = [self.found[each] for each in sized if each in self.found]
        if said.count is not None and (said.count or not others):
            return said.count
        if not others:
            return 0
        if said.count is None and config.default_gpu_num > 0:
            if said.memory is None and said.percent is None:
                self._warn_of_default_memory(others[0])
            return config.default_gpu_num
        needs = " of at least 1" if said.count == 0 else ""
        for found in others:
            self._refuse(
                "CountMissing",
                found,
                f"{found.resource} needs {config.resource_count_name}{needs}",
                f"write {config.resource_count_name}: 1",
            )
        return 0

    def _size(self, said: _Said) -> tuple[int | None, int | None]:
        if said.memory and said.memory.mib:
            if said.percent:
                found = self.found[self.config.resource_memory_percentage_name]
                limit = f"{found.resource}: {said.percent} is ignored, because"
                limit += f" {self.config.resource_memory_name} says {said.memory.mib} MiB"
                self._warn("PercentageIgnored", found, limit)
            return said.memory.mib, None
        if said.percent:
            return None, said.percent
        if said.memory:
            self._warn_of_default_memory(self.found[self.config.resource_memory_name])
        if self.config.default_memory_mib:
            return self.config.default_memory_mib, None
        return None, 100

    def _cores(self, said: _Said) -> int:
        if said.cores is not None:
            return said.cores
        return 100 if self._is_exclusive(said) else self.config.default_cores

    def _is_exclusive(self, said: _Said) -> bool:
        """Tell whether the whole memory is meant, which takes the whole of the cores with it."""
        if said.memory and said.memory.mib:
            return False
        if said.percent is not None:
            return said.percent == 100
        return said.memory is None

    def _part_of_gpu(self, found: Given) -> str:
        percent = amounts.fraction_percent(found)
        name = self.config.resource_memory_percentage_name
        if percent is None or not name:
            return ""
        part = "half a GPU" if percent == 50 else f"{percent} % of a GPU"
        return f"use {name}: {percent} for {part}"

    def _warn_of_default_memory(self, found: Given) -> None:
        mib = self.config.default_memory_mib
        size = f"{mib} MiB" if mib else "the whole GPU's"
        limit = f"no memory is given: each share gets the site's default, {size}"
        self._warn("MemoryIsDefault", found, limit)

    def _warn_of_small_share(self, memory_mib: int, least_memory_mib: int) -> None:
        name = self.config.resource_memory_name
        found = self.found.get(name) or next(iter(self.found.values()))
        limit = f"{memory_mib} MiB may be too little for CUDA itself"
        self._warn("MemoryIsSmall", found, limit, f"ask for {least_memory_mib} MiB or more")

    def _warn_of_priority_alone(self) -> None:
        found = self.found.get(self.config.resource_priority_name)
        if found:
            limit = f"{found.resource} has no effect in a container without a GPU"
            self._warn("PriorityWithoutGpu", found, limit)

    def _warn(self, code: str, found: Given, limit: str, remedy: str = "") -> None:
        self.warnings.append(_said(code, found, limit, remedy))

    def _refuse(self, code: str, found: Given, limit: str, remedy: str = "") -> None:
        self.reasons.append(_said(code, found, limit, remedy))


def _said(code: str, found: Given, limit: str, remedy: str) -> Refusal:
    return Refusal(code=code, field=found.field, value=shown(found.raw), limit=limit, remedy=remedy)
