"""The parts of a ResourceClaim's spec that name our devices, with the path of each.

Limits follow what the scheduler books and not the class, so a request is a share when it names
less than a GPU, whatever class of ours it is of. A class that an administrator made is one of ours
if the settings name it. What it selects is not known here: it is taken for one of GPUs with
limits, unless a request names what only MIG devices have.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gpu.names import (
    CAPACITY_CORES,
    CAPACITY_MEMORY,
    CLASS_MIG,
    CLASS_SHARE,
    CLASS_WHOLE,
    DRIVER,
)
from kube.objects import JsonObject
from kube.quantity import QuantityError, parse

CLASSES: Final = frozenset({CLASS_WHOLE, CLASS_SHARE, CLASS_MIG})
"""Those that come with the driver."""
MULTIPROCESSORS: Final = "multiprocessors"
"""A capacity of MIG devices alone."""

_CORES_ALL: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A request of a class of ours, or one of its alternatives."""

    path: str
    """Such as `spec.devices.requests[0].exactly`."""
    request: str
    """The name of the request, without that of the alternative."""
    alternative: str
    """Empty where there are none."""
    device_class: str
    body: JsonObject

    @property
    def is_mig(self) -> bool:
        """Tell whether it asks for MIG devices."""
        if self.device_class in CLASSES:
            return self.device_class == CLASS_MIG
        return MULTIPROCESSORS in self.capacity()

    @property
    def names(self) -> frozenset[str]:
        """Return what a config calls it by."""
        if not self.alternative:
            return frozenset({self.request})
        return frozenset({self.request, f"{self.request}/{self.alternative}"})

    def capacity(self) -> dict[str, Any]:
        """Return what it asks of each capacity; our own come without a domain."""
        asked = _object(_object(self.body, "capacity"), "requests")
        return {str(key).removeprefix(f"{DRIVER}/"): value for key, value in asked.items()}


def parts(
    spec: JsonObject, field: str = "spec", *, classes: Collection[str] = CLASSES
) -> Iterator[Part]:
    """Yield the parts of *spec* that are of *classes*; *field* is its own path."""
    for index, request in objects(_object(spec, "devices"), "requests"):
        path = f"{field}.devices.requests[{index}]"
        name = _text(request, "name")
        found = [(f"{path}.exactly", "", _object(request, "exactly"))]
        for number, each in objects(request, "firstAvailable"):
            found.append((f"{path}.firstAvailable[{number}]", _text(each, "name"), each))
        for at, alternative, body in found:
            device_class = _text(body, "deviceClassName")
            if device_class in classes:
                yield Part(
                    path=at,
                    request=name,
                    alternative=alternative,
                    device_class=device_class,
                    body=body,
                )


def own_configs(spec: JsonObject, field: str = "spec") -> Iterator[tuple[str, JsonObject]]:
    """Yield each config of *spec* for our driver with its path."""
    for index, entry in objects(_object(spec, "devices"), "config"):
        if _text(_object(entry, "opaque"), "driver") == DRIVER:
            yield f"{field}.devices.config[{index}]", entry


def is_limited(spec: JsonObject, *, classes: Collection[str] = CLASSES) -> bool:
    """Tell whether a claim of *spec* may hold a share that is limited."""
    configs = [entry for _, entry in own_configs(spec)]
    ours = parts(spec, classes=classes)
    return any(is_share(part) and not _is_unlimited(part, configs) for part in ours)


def is_share(part: Part) -> bool:
    """Tell whether *part* names less than a whole GPU."""
    if part.is_mig or part.body.get("adminAccess") is True:
        return False
    asked = part.capacity()
    cores = amount(asked.get(CAPACITY_CORES))
    return CAPACITY_MEMORY in asked or (cores is not None and 0 < cores < _CORES_ALL)


def amount(value: Any) -> int | None:
    """Return the quantity *value* as a number, rounded up; `None` where it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return parse(str(value)).value()
    except QuantityError:
        return None


def _is_unlimited(part: Part, configs: list[JsonObject]) -> bool:
    """Tell whether the strongest of *configs* for *part*, the last one, lifts its limits."""
    for entry in reversed(configs):
        wanted = entry.get("requests")
        if not wanted or (isinstance(wanted, list) and not part.names.isdisjoint(wanted)):
            parameters = _object(_object(entry, "opaque"), "parameters")
            return parameters.get("enforcement") == "none"
    return False


def objects(holder: JsonObject, key: str) -> Iterator[tuple[int, JsonObject]]:
    """Yield the objects in the list *key* of *holder* with their places."""
    found = holder.get(key)
    for index, each in enumerate(found if isinstance(found, list) else ()):
        if isinstance(each, dict):
            yield index, each


def _object(holder: JsonObject, key: str) -> JsonObject:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def _text(holder: JsonObject, key: str) -> str:
    found = holder.get(key)
    return found if isinstance(found, str) else ""
