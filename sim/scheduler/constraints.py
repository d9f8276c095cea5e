"""Rules over all devices of a claim: one attribute equal, or different everywhere.

A constraint sees devices one by one as the search takes and returns them. `distinctAttribute`
up to 1.36 remembers one value per request, the last, so a request for several devices can slip
through (allocator: constraint.go).
"""

from typing import Protocol

from kube.objects import JsonObject
from sim.scheduler.devices import UNSUPPORTED, Attribute, Device
from sim.scheduler.errors import FatalError
from sim.scheduler.features import Features
from sim.scheduler.requests import Wanted, covers
from sim.scheduler.verdicts import Refused

CODE = "ConstraintRefused"
_UNKNOWN = Attribute(UNSUPPORTED, "a list")


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
        return MatchAttribute(item["matchAttribute"], names, features)
    if item.get("distinctAttribute") and features.consumable_capacity:
        return DistinctAttribute(item["distinctAttribute"], names, features)
    raise FatalError("ConstraintUnknown", "a constraint is of a kind that is not known")


def attribute_of(device: Device, name: str) -> Attribute | None:
    """Look a fully qualified *name* up; a bare name in the slice has the driver's domain."""
    found = device.attributes.get(name)
    if found is None:
        domain, _, bare = name.partition("/")
        if domain == device.id.driver:
            found = device.attributes.get(bare)
    return found


def values_of(device: Device, name: str, features: Features) -> frozenset[Attribute]:
    """Return the values that *device* has for *name*: none, one, or those of a list.

    A list that constraints do not know is one value that is not to be compared.
    """
    found = attribute_of(device, name)
    if found is None:
        return frozenset()
    values = found.value if isinstance(found.value, tuple) else (found.value,)
    if found.kind == UNSUPPORTED or (values is found.value and not features.list_constraints):
        return frozenset((_UNKNOWN,))
    return frozenset(Attribute(found.kind, value) for value in values)


class MatchAttribute:
    """All devices have a value in common; what the first ones share is what the next must meet."""

    def __init__(self, name: str, requests: list[str], features: Features) -> None:
        self._name = name
        self._requests = requests
        self._features = features
        self._shared: list[frozenset[Attribute]] = []
        """What the devices up to each one have in common."""

    def add(self, wanted: Wanted, device: Device) -> Refused | None:
        """Count *device* in, or say which value it would need."""
        if not covers(self._requests, wanted):
            return None
        values = values_of(device, self._name, self._features)
        if not values:
            return _missing(self._name)
        shared = self._shared[-1] & values if self._shared else values
        if not shared or (self._shared and _UNKNOWN in values):
            held = _text(self._shared[-1])
            return Refused(CODE, f"{self._name} is {_text(values)}", f"the others have {held}")
        self._shared.append(shared)
        return None

    def remove(self, wanted: Wanted, device: Device) -> None:
        """Forget *device*, which was counted in last; without any all values are free again."""
        if covers(self._requests, wanted) and values_of(device, self._name, self._features):
            self._shared.pop()


class DistinctAttribute:
    """No two devices have a value in common."""

    def __init__(self, name: str, requests: list[str], features: Features) -> None:
        self._name = name
        self._requests = requests
        self._features = features
        self._values: dict[tuple[str, ...], frozenset[Attribute]] = {}

    def add(self, wanted: Wanted, device: Device) -> Refused | None:
        """Count *device* in, or say which value is there already."""
        if not covers(self._requests, wanted):
            return None
        values = values_of(device, self._name, self._features)
        if not values:
            return _missing(self._name)
        if any(values & known or _UNKNOWN in values for known in self._values.values()):
            has = f"{self._name} is {_text(values)}"
            return Refused(CODE, has, "another device has it too")
        self._values[self._key(wanted, device)] = values
        return None

    def remove(self, wanted: Wanted, device: Device) -> None:
        """Forget *device*, or up to 1.36 its whole request."""
        self._values.pop(self._key(wanted, device), None)

    def _key(self, wanted: Wanted, device: Device) -> tuple[str, ...]:
        return (wanted.main, *device.id) if self._features.distinct_per_device else (wanted.main,)


def _text(values: frozenset[Attribute]) -> str:
    return ", ".join(sorted(str(each.value) for each in values))


def _missing(name: str) -> Refused:
    return Refused(CODE, f"{name} is missing")
