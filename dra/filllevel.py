"""How full a GPU is, in four steps, for requests that would rather have a full or an empty one.

The scheduler sees no load of a device in an expression, so the driver publishes it: an attribute
that alternatives of a request may test. It is a hint and always a little late. Every write of a
slice goes to all who watch slices, so a change of level waits until 30 s have passed since the
last one, and a level once reached is left only by a clear step down. Nothing else waits for that.

What is published is where the level was: a restarted agent goes on from there, and of two agents
during an update the one that kubelet no longer calls leaves it as it is.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra.grants import CORES_WHOLE, MIB
from dra.record import PreparedClaim
from gpu.names import ATTRIBUTE_FILL_LEVEL, CAPACITY_MEMORY, CAPACITY_SHARES
from kube.objects import JsonObject
from kube.quantity import QuantityError, parse

INTERVAL_S: Final = 30.0
SETTLE_S: Final = 1.0
"""Pods come in bursts: what follows within this time is looked at together."""

_FULL: Final = 1000
_RISES: Final = (1, 500, 900)
"""Thousandths of the scarcest capacity from which levels 1, 2 and 3 hold."""
_FALLS: Final = (1, 400, 800)
"""Thousandths below which they are left."""


@dataclass(slots=True)
class Held:
    """What prepared claims hold of one device."""

    memory_mib: int = 0
    cores_percent: int = 0
    shares: int = 0
    dedicated: bool = False


def held_by_device(claims: Iterable[PreparedClaim]) -> dict[str, Held]:
    """Return what *claims* hold by the published name of the device."""
    found: dict[str, Held] = {}
    for claim in claims:
        for device in claim.devices:
            if not device.admin:
                held = found.setdefault(device.device, Held())
                held.memory_mib += device.memory_mib
                held.cores_percent += device.cores_percent
                held.shares += device.shares
                held.dedicated |= device.dedicated
    return found


def thousandths(device: JsonObject, held: Held | None) -> int:
    """Return how much of the scarcest capacity of the published *device* is held, rounded up."""
    if held is None:
        return 0
    if held.dedicated:
        return _FULL
    parts = (
        (held.memory_mib, _total(device, CAPACITY_MEMORY) // MIB),
        (held.cores_percent, CORES_WHOLE),
        (held.shares, _total(device, CAPACITY_SHARES)),
    )
    return max(-(-part * _FULL // total) if total else _FULL for part, total in parts)


def level_of(filled: int, before: int | None) -> int:
    """Return the level for so many thousandths, given the one *before*."""
    level = sum(filled >= rise for rise in _RISES)
    if before is None:
        return level
    stays = before
    while stays > level and filled < _FALLS[stays - 1]:
        stays -= 1
    return max(level, stays)


def without_level(device: JsonObject) -> JsonObject:
    """Return *device* without the attribute."""
    attributes = device.get("attributes") or {}
    if ATTRIBUTE_FILL_LEVEL not in attributes:
        return device
    return device | {
        "attributes": {k: v for k, v in attributes.items() if k != ATTRIBUTE_FILL_LEVEL}
    }


class FillLevels:
    """Gives devices their level; for the publisher's thread, `claims_changed` for any."""

    def __init__(
        self,
        claims: Callable[[], Mapping[str, PreparedClaim]],
        *,
        interval_s: float = INTERVAL_S,
        settle_s: float = SETTLE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claims = claims
        self._interval_s, self._settle_s, self._now_s = interval_s, settle_s, now_s
        self._lock = threading.Lock()
        # The agent before may have written just now, and claims may have gone since.
        self._next_s = now_s() + interval_s
        self._changes, self._counted = 1, 0
        self._looked_at: int | None = None
        self._moved = False

    def claims_changed(self) -> bool:
        """Note that claims came or went; tell whether the publisher has to look for it."""
        with self._lock:
            was_clean = self._changes == self._counted
            self._changes += 1
            if was_clean:
                self._next_s = max(self._next_s, self._now_s() + self._settle_s)
            return was_clean

    def apply(
        self, devices: Iterable[JsonObject], published: Mapping[str, JsonObject]
    ) -> tuple[JsonObject, ...]:
        """Return *devices* with the level that each is to be published with."""
        with self._lock:
            due = self._changes != self._counted and self._now_s() >= self._next_s
            self._looked_at = self._changes if due else None
        held = held_by_device(self._claims().values())
        self._moved = False
        found = []
        for device in devices:
            name = device["name"]
            if not device.get("allowMultipleAllocations"):
                found.append(device)
                continue
            before = _published_level(published.get(name))
            level = before
            if due or level is None:
                level = level_of(thousandths(device, held.get(name)), before)
                self._moved |= level != before
            attributes = device["attributes"] | {ATTRIBUTE_FILL_LEVEL: {"int": level}}
            found.append(device | {"attributes": attributes})
        return tuple(found)

    def published(self) -> None:
        """Note that what `apply` returned is on the server."""
        with self._lock:
            if self._moved:
                self._next_s = self._now_s() + self._interval_s
            if self._looked_at is not None:
                self._counted = self._looked_at
            self._moved, self._looked_at = False, None

    def wait_s(self) -> float | None:
        """Return after how long to look again; `None` where nothing is waiting."""
        with self._lock:
            if self._changes == self._counted:
                return None
            return max(self._settle_s, self._next_s - self._now_s())


def _published_level(device: JsonObject | None) -> int | None:
    attribute: Any = ((device or {}).get("attributes") or {}).get(ATTRIBUTE_FILL_LEVEL)
    level = attribute.get("int") if isinstance(attribute, dict) else None
    is_level = isinstance(level, int) and 0 <= level <= len(_RISES)
    return level if is_level else None


def _total(device: JsonObject, capacity: str) -> int:
    try:
        return parse(str(device["capacity"][capacity]["value"])).value()
    except (QuantityError, LookupError, TypeError):
        return 0
