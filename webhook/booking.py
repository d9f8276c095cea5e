"""What a ResourceClaim costs its namespace: all that it books, or may book, of our devices.

A claim is held for as long as it exists, whichever container uses it and when, so there is no peak
here. An allocated claim costs what the scheduler consumed. Before, each request costs the largest
of its alternatives: a percentage is a list of one size for each kind of GPU, and a request that
names no memory may get the largest GPU there is.

A whole GPU leaves no compute to anybody, so it costs 100 percent of cores although the scheduler
books none unless asked. A MIG device has no share of cores: it costs memory and a device. Devices
that cannot be shared are given whole, whatever a request names, and their results tell no sizes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu.names import (
    CAPACITY_CORES,
    CAPACITY_MEMORY,
    CLASS_MIG,
    CLASS_SHARE,
    DRIVER,
)
from hami.quota import NOTHING, Cost, QuotaNames, total
from kube.objects import JsonObject
from kube.quantity import QuantityError, parse
from webhook.claimspec import CLASSES
from webhook.facts import ClusterFacts

_MIB: Final = 1 << 20
_WHOLE_CORES: Final = 100
_MIG_PREFIX: Final = "mig-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """How claims are counted."""

    names: QuotaNames
    """NVIDIA's."""
    classes: frozenset[str] = CLASSES
    """DeviceClasses whose requests may get our devices."""
    memory_of: Callable[[str, str], int | None] = lambda _pool, _device: None
    """Gives the MiB of a published device by pool and name, if known."""


def cost_of_claim(claim: JsonObject, facts: ClusterFacts, tariff: Tariff) -> Cost:
    """Return what *claim* costs now."""
    spec, status = _mapping(claim.get("spec")), _mapping(claim.get("status"))
    allocation = _mapping(status.get("allocation"))
    if not allocation:
        return cost_of_spec(spec, facts, tariff)
    options = dict(_options_by_name(spec))
    results = _list(_mapping(allocation.get("devices")).get("results"))
    return total(
        _of_result(result, options, facts, tariff)
        for result in map(_mapping, results)
        if result.get("driver") == DRIVER and result.get("adminAccess") is not True
    )


def cost_of_spec(spec: Mapping[str, Any], facts: ClusterFacts, tariff: Tariff) -> Cost:
    """Return the most that a claim of *spec* can book."""
    requests = _list(_mapping(spec.get("devices")).get("requests"))
    return total(_of_request(request, facts, tariff) for request in map(_mapping, requests))


def _of_request(request: Mapping[str, Any], facts: ClusterFacts, tariff: Tariff) -> Cost:
    largest = NOTHING
    for option in _options(request):
        if (
            str(option.get("deviceClassName")) in tariff.classes
            and option.get("adminAccess") is not True
        ):
            largest |= _of_option(option, facts, tariff.names)
    return largest


def _of_option(option: Mapping[str, Any], facts: ClusterFacts, names: QuotaNames) -> Cost:
    if option.get("allocationMode") == "All":
        why = "`allocationMode: All` asks for a number that only the scheduler finds out"
        return Cost(unknown=dict.fromkeys(names.all, why))
    count = option.get("count")
    devices = count if isinstance(count, int) and count > 0 else 1
    device_class = option.get("deviceClassName")
    asked = _mapping(_mapping(option.get("capacity")).get("requests"))
    memory, cores = _amount(asked, CAPACITY_MEMORY), _amount(asked, CAPACITY_CORES)
    if memory is None or device_class == CLASS_MIG:
        one = _whole(facts, names, is_mig=device_class == CLASS_MIG, cores=cores)
    else:
        one = _cost(names, memory=_mib(memory), cores=cores or 0)
        if device_class != CLASS_SHARE and _has_exclusive_gpus(facts):
            one |= _whole(facts, names, is_mig=False, cores=cores)
    return total([one] * devices)


def _of_result(
    result: Mapping[str, Any],
    options: Mapping[str, Mapping[str, Any]],
    facts: ClusterFacts,
    tariff: Tariff,
) -> Cost:
    consumed = result.get("consumedCapacity")
    option = options.get(str(result.get("request")), {})
    asked = _mapping(_mapping(option.get("capacity")).get("requests"))
    if not isinstance(consumed, dict) or _amount(consumed, CAPACITY_MEMORY) is None:
        return _of_whole_result(result, facts, tariff)
    memory, cores = _amount(consumed, CAPACITY_MEMORY), _amount(consumed, CAPACITY_CORES) or 0
    if option and _amount(asked, CAPACITY_MEMORY) is None:
        cores = max(cores, _WHOLE_CORES)
    return _cost(tariff.names, memory=_mib(memory or 0), cores=cores)


def _of_whole_result(result: Mapping[str, Any], facts: ClusterFacts, tariff: Tariff) -> Cost:
    device = str(result.get("device"))
    is_mig = device.startswith(_MIG_PREFIX)
    known_mib = tariff.memory_of(str(result.get("pool")), device)
    if known_mib is None:
        return _whole(facts, tariff.names, is_mig=is_mig, cores=None)
    return _cost(tariff.names, memory=known_mib, cores=0 if is_mig else _WHOLE_CORES)


def _has_exclusive_gpus(facts: ClusterFacts) -> bool:
    return sum(facts.gpus_by_memory_mib.values()) > sum(facts.gpus_by_shares.values())


def _whole(facts: ClusterFacts, names: QuotaNames, *, is_mig: bool, cores: int | None) -> Cost:
    sizes = facts.mig_by_memory_mib if is_mig else facts.gpus_by_memory_mib
    cores = 0 if is_mig else max(cores or 0, _WHOLE_CORES)
    cost = _cost(names, memory=max(sizes, default=0), cores=cores)
    if sizes or not names.memory:
        return cost
    kind = "MIG device" if is_mig else "GPU"
    why = f"it names no memory, and no {kind} is known whose size it could have"
    return Cost(amounts=cost.amounts, unknown={names.memory: why})


def _cost(names: QuotaNames, *, memory: int, cores: int) -> Cost:
    amounts = {names.memory: memory, names.cores: cores, names.count: 1}
    return Cost(amounts={name: amount for name, amount in amounts.items() if name and amount > 0})


def _options(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the ways to serve *request*, also as v1beta1 writes the only one."""
    if alternatives := _list(request.get("firstAvailable")):
        yield from map(_mapping, alternatives)
    elif "exactly" in request:
        yield _mapping(request["exactly"])
    else:
        yield request


def _options_by_name(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each option under the name that results have: `main` or `main/sub`."""
    for request in map(_mapping, _list(_mapping(spec.get("devices")).get("requests"))):
        for option in _options(request):
            named_apart = bool(_list(request.get("firstAvailable")))
            name = f"{request.get('name')}/{option.get('name')}" if named_apart else None
            yield name or str(request.get("name")), option


def _amount(quantities: Mapping[str, Any], capacity: str) -> int | None:
    """Return a capacity, with or without the driver's domain; an unreadable one is absent."""
    text = quantities.get(capacity, quantities.get(f"{DRIVER}/{capacity}"))
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    try:
        return parse(text).value() if isinstance(text, str) else None
    except QuantityError:
        return None


def _mib(number: int) -> int:
    """Return whole MiB, rounded up as the scheduler rounds to its step; at least one."""
    return max(1, -(-number // _MIB))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
