"""Rules over all devices of a claim: one attribute equal, or different everywhere.

A constraint sees devices one by one as the search takes and returns them. `distinctAttribute`
up to 1.36 remembers one value per request, the last, so a request for several devices can slip
through (allocator: constraint.go).
"""

from typing import Protocol

from kube.objects import JsonObject
from sim.scheduler.devices import Attribute, Device
from sim.scheduler.errors import FatalError
from sim.scheduler.features import Features
from sim.scheduler.requests import Wanted, covers
from sim.scheduler.verdicts import Refused

CODE = "ConstraintRefused"


class Constraint(Protocol):
    """One rule of one claim during one attempt."""

    def add(self, wanted: Wanted, device: Device) -> Refused | None:
        """Count *device* in, or say why it may not be."""

    def remove(self, wanted: Wanted, device: Device) -> None:
        """Forget a device that was counted in."""


def constraint_of(item: JsonObject, features: Features) -> Constraint:
    """Make the rule that *item* of a claim's constraints asks for."""
    names = list(item.get("requests") or ())
    if item.get("matchAttribute"):
        return MatchAttribute(item["matchAttribute"], names)
    if item.get("distinctAttribute") and features.consumable_capacity:
        per_device = features.distinct_per_device
        return DistinctAttribute(item["distinctAttribute"], names, per_device=per_device)
    raise FatalError("ConstraintUnknown", "a constraint is of a kind that is not known")


def attribute_of(device: Device, name: str) -> Attribute | None:
    """Look a fully qualified *name* up; a bare name in the slice has the driver's domain."""
    found = device.attributes.get(name)
    if found is None:
        domain, _, bare = name.partition("/")
        if domain == device.id.driver:
            found = device.attributes.get(bare)
    return found


class MatchAttribute:
    """All devices have the same value, which the first one sets."""

    def __init__(self, name: str, requests: list[str]) -> None:
        self._name = name
        self._requests = requests
        self._value: Attribute | None = None
        self._count = 0

    def add(self, wanted: Wanted, device: Device) -> Refused | None:
        """Count *device* in, or say which value it would need."""
        if not covers(self._requests, wanted):
            return None
        value = attribute_of(device, self._name)
        if value is None:
            return _missing(self._name)
        if self._count and value != self._value:
            held = self._value.value if self._value else ""
            return Refused(CODE, f"{self._name} is {value.value}", f"the others have {held}")
        self._value = value
        self._count += 1
        return None

    def remove(self, wanted: Wanted, device: Device) -> None:
        """Forget *device*; without any the value is free again."""
        if covers(self._requests, wanted) and attribute_of(device, self._name) is not None:
            self._count -= 1


class DistinctAttribute:
    """All devices have different values."""

    def __init__(self, name: str, requests: list[str], *, per_device: bool) -> None:
        self._name = name
        self._requests = requests
        self._per_device = per_device
        self._values: dict[tuple[str, ...], Attribute] = {}

    def add(self, wanted: Wanted, device: Device) -> Refused | None:
        """Count *device* in, or say which value is there already."""
        if not covers(self._requests, wanted):
            return None
        value = attribute_of(device, self._name)
        if value is None:
            return _missing(self._name)
        if value in self._values.values():
            return Refused(CODE, f"{self._name} is {value.value}", "another device has it too")
        self._values[self._key(wanted, device)] = value
        return None

    def remove(self, wanted: Wanted, device: Device) -> None:
        """Forget *device*, or up to 1.36 its whole request."""
        self._values.pop(self._key(wanted, device), None)

    def _key(self, wanted: Wanted, device: Device) -> tuple[str, ...]:
        return (wanted.main, *device.id) if self._per_device else (wanted.main,)


def _missing(name: str) -> Refused:
    return Refused(CODE, f"{name} is missing")
