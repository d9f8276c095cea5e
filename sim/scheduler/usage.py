"""What is taken, computed from the claims that are allocated: never counted along.

A claim counts from its allocation on, whether or not a pod runs with it. Results with admin
access take nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kube.objects import JsonObject
from kube.quantity import Quantity
from sim.scheduler.amounts import parse
from sim.scheduler.devices import DeviceId

Amounts = Mapping[str, Quantity]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What allocated claims hold."""

    dedicated: frozenset[DeviceId] = frozenset()
    shared: Mapping[DeviceId, frozenset[str]] = field(default_factory=dict)
    """Share ids per device."""
    used: Mapping[DeviceId, Amounts] = field(default_factory=dict)
    """Consumed capacity per device, summed over its shares."""

    def holds(self, device: DeviceId) -> bool:
        """Tell whether anything of *device* is taken."""
        return device in self.dedicated or device in self.shared or device in self.used


def usage_of(claims: Iterable[JsonObject]) -> Usage:
    """Sum up the allocations of *claims*; those without one hold nothing."""
    dedicated: set[DeviceId] = set()
    shared: dict[DeviceId, set[str]] = {}
    used: dict[DeviceId, dict[str, Quantity]] = {}
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            device = DeviceId(result["driver"], result["pool"], result["device"])
            if result.get("adminAccess"):
                continue
            if not result.get("shareID"):
                dedicated.add(device)
                continue
            shared.setdefault(device, set()).add(result["shareID"])
            for name, text in (result.get("consumedCapacity") or {}).items():
                amounts = used.setdefault(device, {})
                amount = parse(str(text))
                amounts[name] = amounts[name] + amount if name in amounts else amount
    return Usage(
        dedicated=frozenset(dedicated),
        shared={device: frozenset(ids) for device, ids in shared.items()},
        used=used,
    )
