"""Which capacities of a device are too low for a request: all of them, not only the first."""

from functools import lru_cache
from typing import NamedTuple

from kube.quantity import Quantity
from sim.scheduler.capacity import consumed, violates
from sim.scheduler.devices import Capacity, Device
from sim.scheduler.errors import FatalError
from sim.scheduler.features import Features
from sim.scheduler.requests import Wanted
from sim.scheduler.usage import Usage
from sim.scheduler.verdicts import capacity_code

_ZERO = Quantity(0)


class Shortage(NamedTuple):
    """One capacity that is too low, or that may not be consumed as asked."""

    name: str
    asked: Quantity | None
    """`None` where the request does not name it."""
    takes: Quantity | None
    """What that means after rounding; `None` where no number can say it."""
    free: Quantity
    capacity: Capacity

    @property
    def most(self) -> Quantity | None:
        """Return the largest amount that could be asked for here, or nothing."""
        policy = self.capacity.policy
        limit = min(self.free, self.capacity.value)
        if policy is None:
            return limit if limit >= _ZERO else None
        if policy.values:
            return max((value for value in policy.values if value <= limit), default=None)
        if policy.maximum is not None:
            limit = min(limit, policy.maximum)
        return _on_grid(limit, policy.minimum or _ZERO, policy.step or _ZERO)


def shortages(
    wanted: Wanted, device: Device, usage: Usage, features: Features
) -> tuple[Shortage, ...]:
    """Return what *device* lacks for *wanted* beside what *usage* has taken."""
    if not features.consumable_capacity:
        return ()
    used = usage.used.get(device.id, {})
    found = []
    for name, capacity in device.capacity.items():
        asked = wanted.capacity.get(name)
        takes = _taken(asked, capacity, features)
        free = capacity.value - used.get(name, _ZERO)
        if takes is None or violates(takes, capacity.policy, features) or takes > free:
            found.append(Shortage(name, asked, takes, free, capacity))
    return tuple(found)


def _taken(asked: Quantity | None, capacity: Capacity, features: Features) -> Quantity | None:
    try:
        return consumed(asked, capacity, features)
    except FatalError:
        return None


def capacity_named(code: str, device: Device) -> str:
    """Return the capacity that a code such as `MemoryInsufficient` is about, or nothing."""
    return next((name for name in device.capacity if code in _codes(name)), "")


@lru_cache(maxsize=256)
def _codes(name: str) -> tuple[str, str]:
    return capacity_code(name, "Insufficient"), capacity_code(name, "NotAllowed")


def _on_grid(limit: Quantity, minimum: Quantity, step: Quantity) -> Quantity | None:
    if limit < minimum:
        return None
    if step <= _ZERO:
        return limit
    steps = (limit.nanos - minimum.nanos) // step.nanos
    return Quantity(minimum.nanos + steps * step.nanos, limit.format)
