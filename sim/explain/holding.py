"""Who holds which device: the claims behind what `sim.scheduler.usage` sums up."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kube.objects import JsonObject, ObjectKey, key_of
from kube.quantity import Quantity
from sim.explain.model import Holder
from sim.scheduler.amounts import parse
from sim.scheduler.devices import DeviceId
from sim.scheduler.podclaims import allocation_of

_ZERO = Quantity(0)


class Held(NamedTuple):
    """One result of an allocated claim."""

    claim: JsonObject
    result: JsonObject

    @property
    def key(self) -> ObjectKey:
        """Return the claim's name."""
        return key_of(self.claim)

    @property
    def pods(self) -> tuple[str, ...]:
        """Return the names of the pods that the claim is reserved for."""
        consumers = (self.claim.get("status") or {}).get("reservedFor") or ()
        return tuple(str(consumer.get("name", "")) for consumer in consumers)

    def amount(self, capacity: str) -> Quantity:
        """Return what the claim holds of *capacity* of the device."""
        text = (self.result.get("consumedCapacity") or {}).get(capacity)
        return _ZERO if text is None else parse(str(text))


class Holdings:
    """All devices that are held; admin access holds nothing."""

    def __init__(self, claims: Iterable[JsonObject]) -> None:
        self._by_device: dict[DeviceId, list[Held]] = {}
        for claim in claims:
            for device, held in _held_by(claim):
                self._by_device.setdefault(device, []).append(held)

    def of(self, device: DeviceId) -> tuple[Held, ...]:
        """Return what is held of *device*."""
        return tuple(self._by_device.get(device, ()))

    def of_pool(self, driver: str, pool: str) -> tuple[Held, ...]:
        """Return what is held of all devices of a pool."""
        return tuple(
            held
            for device, found in self._by_device.items()
            if (device.driver, device.pool) == (driver, pool)
            for held in found
        )


def holder_of(held: Held, capacity: str = "") -> Holder:
    """Name the claim with its pods, and what it holds of *capacity* if one is given."""
    amount = str(held.amount(capacity)) if capacity and held.result.get("shareID") else ""
    return Holder(claim=str(held.key), pods=held.pods, amount=amount)


def _held_by(claim: JsonObject) -> Iterator[tuple[DeviceId, Held]]:
    devices = (allocation_of(claim) or {}).get("devices") or {}
    for result in devices.get("results") or ():
        if not result.get("adminAccess"):
            device = DeviceId(result["driver"], result["pool"], result["device"])
            yield device, Held(claim, result)
