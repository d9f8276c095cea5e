"""Whether the counters of a pool allow one more device (KEP-4815, partitionable devices).

Every device that is allocated anywhere takes its part once, however many shares it has. Up to
1.36 the scheduler keeps its books by pool name alone, so equal names of two drivers mix.
"""

from kube.quantity import Quantity
from sim.scheduler.devices import Device
from sim.scheduler.features import Features
from sim.scheduler.pools import Pool
from sim.scheduler.usage import Usage
from sim.scheduler.verdicts import Refused

_ZERO = Quantity(0)
_Name = tuple[str, str]
"""Counter set and counter."""
_Book = dict[_Name, int]
"""Amounts in billionths."""


class Counters:
    """What one attempt draws from counters; lives as long as the attempt."""

    def __init__(self, usage: Usage, features: Features) -> None:
        self._usage = usage
        self._by_driver = features.counters_by_driver
        self._available: dict[tuple[str, str], _Book] = {}
        self._drawn: dict[tuple[str, str], _Book] = {}

    def draw(self, pool: Pool, device: Device) -> Refused | None:
        """Take the part of *device*, or say which counter is too low and take nothing."""
        key = self._key(pool)
        if key not in self._available:
            self._available[key] = _available(pool, self._usage)
        self._add(key, device, 1)
        drawn = self._drawn[key]
        for name, free in self._available[key].items():
            if free < drawn.get(name, 0):
                self._add(key, device, -1)
                return _refused(device, name, free - drawn.get(name, 0))
        return None

    def give_back(self, pool: Pool, device: Device) -> None:
        """Return the part of *device*."""
        self._add(self._key(pool), device, -1)

    def _key(self, pool: Pool) -> tuple[str, str]:
        return (pool.driver if self._by_driver else "", pool.name)

    def _add(self, key: tuple[str, str], device: Device, sign: int) -> None:
        drawn = self._drawn.setdefault(key, {})
        for name, nanos in _parts(device):
            drawn[name] = drawn.get(name, 0) + sign * nanos


def _available(pool: Pool, usage: Usage) -> _Book:
    book = {
        (set_name, counter): amount.nanos
        for set_name, counters in pool.counter_sets
        for counter, amount in counters.items()
    }
    for part in (*pool.slices, *pool.elsewhere):
        for device in part.devices:
            if usage.holds(device.id):
                for name, nanos in _parts(device):
                    book[name] -= nanos
    return book


def _parts(device: Device) -> list[tuple[_Name, int]]:
    return [
        ((set_name, counter), amount.nanos)
        for set_name, counters in device.consumes
        for counter, amount in counters.items()
    ]


def _refused(device: Device, name: _Name, free_nanos: int) -> Refused:
    set_name, counter = name
    amount = dict(device.consumes).get(set_name, {}).get(counter, _ZERO)
    asked, style = amount.nanos, amount.format
    return Refused(
        "CounterInsufficient",
        f"asked {Quantity(asked, style)} of {set_name}/{counter}",
        f"free {Quantity(free_nanos, style)}",
    )
