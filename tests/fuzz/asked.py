"""What a pod asks for in HAMi's words, computed again from its JSON alone.

The rules are those of HAMi's documents and of the API server; the numbers are fractions, so that
no step of the reader under test is made again here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Final

from tests.fuzz.quantities import expected

COUNT: Final = "nvidia.com/gpu"
MEMORY: Final = "nvidia.com/gpumem"
PERCENTAGE: Final = "nvidia.com/gpumem-percentage"
CORES: Final = "nvidia.com/gpucores"
PRIORITY: Final = "nvidia.com/priority"
KEYS: Final = (COUNT, MEMORY, PERCENTAGE, CORES, PRIORITY)

MIB: Final = 2**20
_MEMORY_MAX_MIB: Final = 2**24
_NUMBER_MAX: Final = 2**63 - 1
_COUNT_MAX: Final = 2**31 - 1
_NANO: Final = 10**9


class MeaninglessError(Exception):
    """What a container says cannot be meant, so its pod must be refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one container asks of NVIDIA's GPUs."""

    count: int
    memory_mib: int | None
    percent: int | None
    """Of each GPU; 100 is a whole one."""
    cores: int


def containers(pod: Any) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield section, place and content of each container that is one."""
    spec = pod.get("spec")
    for section in ("initContainers", "containers"):
        found = spec.get(section) if isinstance(spec, dict) else None
        for index, each in enumerate(found if isinstance(found, list) else ()):
            if isinstance(each, dict):
                yield section, index, each


def amounts(container: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    """Return limits or requests."""
    resources = container.get("resources")
    found = resources.get(section) if isinstance(resources, dict) else None
    return found if isinstance(found, dict) else {}


def wanted(container: Mapping[str, Any]) -> Wanted | None:
    """Return what *container* asks, `None` for nothing; raises `MeaninglessError`."""
    count = _whole(container, COUNT, _COUNT_MAX)
    memory_mib = _memory_mib(container)
    percent = _whole(container, PERCENTAGE, 100)
    cores = _whole(container, CORES, 100)
    _whole(container, PRIORITY, _COUNT_MAX)
    sized = any(each is not None for each in (memory_mib, percent, cores))
    _must(count != 0 or not sized, "sizes of no GPU")
    count = int(sized) if count is None else count
    if not count:
        return None
    if memory_mib:
        return Wanted(count=count, memory_mib=memory_mib, percent=None, cores=cores or 0)
    if cores is None:
        is_whole = percent == 100 if percent is not None else memory_mib is None
        cores = 100 if is_whole else 0
    return Wanted(count=count, memory_mib=None, percent=percent or 100, cores=cores)


def number(raw: Any) -> Fraction | None:
    """Return the number that a quantity in JSON says, to the billionth as Kubernetes keeps it."""
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        return None
    found = expected(raw if isinstance(raw, str) else str(raw))
    if found is None or abs(found) > _NUMBER_MAX:
        return None
    nanos = ceil(abs(found) * _NANO)
    return Fraction(nanos if found >= 0 else -nanos, _NANO)


def _said(container: Mapping[str, Any], key: str) -> Any:
    """Return what stands under *key*, `None` for nothing."""
    limits, requests = amounts(container, "limits"), amounts(container, "requests")
    if key not in limits:
        _must(key not in requests, f"a request of {key} without a limit")
        return None
    _must(number(limits[key]) is not None, f"{key} is no number")
    same = key not in requests or number(requests[key]) == number(limits[key])
    _must(same, f"{key} is two numbers")
    return limits[key]


def _whole(container: Mapping[str, Any], key: str, most: int) -> int | None:
    raw = _said(container, key)
    found = None if raw is None else number(raw)
    if found is None:
        return None
    _must(found.denominator == 1 and 0 <= found <= most, f"{key} is {found}")
    return int(found)


def _memory_mib(container: Mapping[str, Any]) -> int | None:
    raw = _said(container, MEMORY)
    found = None if raw is None else number(raw)
    if found is None:
        return None
    if str(raw).endswith("i"):
        found /= MIB
    in_bounds = found.denominator == 1 and 0 <= found <= _MEMORY_MAX_MIB
    _must(in_bounds, f"{MEMORY} is {found} MiB")
    return int(found)


def _must(holds: bool, what: str) -> None:  # noqa: FBT001 - a condition
    if not holds:
        raise MeaninglessError(what)
