"""Take and return devices during one search, with all rules in the scheduler's order.

What is taken is the list of results itself; only counters and constraints keep books.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kube.quantity import Quantity
from sim.scheduler.capacity import consumption, shortage
from sim.scheduler.checking import Candidate
from sim.scheduler.constraints import Constraint, constraint_of
from sim.scheduler.counters import Counters
from sim.scheduler.devices import Device
from sim.scheduler.errors import FatalError
from sim.scheduler.pools import Pool
from sim.scheduler.requests import ALL, Wanted
from sim.scheduler.scene import Scene
from sim.scheduler.taints import taint_text, untolerated
from sim.scheduler.usage import Amounts
from sim.scheduler.verdicts import Refused


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taken:
    """One device in the hands of a request."""

    wanted: Wanted
    pool: Pool
    device: Device
    share_id: str = ""
    consumed: Mapping[str, Quantity] = field(default_factory=dict)


class Attempt:
    """The state of one search."""

    def __init__(self, scene: Scene, new_share_id: Callable[[], str]) -> None:
        self.results: list[list[Taken]] = [[] for _ in scene.claims]
        """Per claim, in the order in which devices were found."""
        self._scene = scene
        self._new_share_id = new_share_id
        self._counters = Counters(scene.usage, scene.features)
        self._constraints: list[list[Constraint]] = [
            [constraint_of(item, scene.features) for item in claim.constraints]
            for claim in scene.claims
        ]

    def in_use(self, claim: int, wanted: Wanted, device: Device) -> Refused | None:
        """Say who has *device*; shares and admin access do not exclude one another."""
        if wanted.admin:
            if any(it.device is device for it in self._whole(self.results[claim])):
                return Refused("DeviceInUse", "", "this claim has it already")
            return None
        if device.id in self._scene.usage.dedicated:
            return Refused("DeviceInUse", "", "another claim has all of it")
        if any(it.device is device for made in self.results for it in self._whole(made)):
            return Refused("DeviceInUse", "", "another request of the pod has all of it")
        return None

    def shortage(self, wanted: Wanted, device: Device) -> Refused | None:
        """Say which capacity of *device* is too low for *wanted* now."""
        if not self._scene.features.consumable_capacity:
            return None
        return shortage(wanted, device, tuple(self._amounts(device)), self._scene.features)

    def take(self, claim: int, wanted: Wanted, candidate: Candidate) -> Refused | None:
        """Give the device to *wanted* of *claim*, or say which rule forbids it."""
        device = candidate.device
        refused = self.in_use(claim, wanted, device)
        if refused:
            return refused
        drawn, refused = self._draw(candidate)
        refused = (
            refused
            or self._tainted(wanted, device)
            or self._constrained(claim, wanted, device)
            or self._short_after_constraints(claim, wanted, device)
        )
        if refused:
            if drawn:
                self._counters.give_back(candidate.pool, device)
            return refused
        self.results[claim].append(self._taken(wanted, candidate))
        return None

    def undo(self, claim: int) -> None:
        """Return the device that *claim* took last."""
        taken = self.results[claim].pop()
        device = taken.device
        for constraint in self._constraints[claim]:
            constraint.remove(taken.wanted, device)
        if not device.consumes or not self._scene.features.partitionable_devices:
            return
        if not device.shareable or not self._has_shares(device):
            self._counters.give_back(taken.pool, device)

    def _whole(self, results: list[Taken]) -> Iterator[Taken]:
        return (it for it in results if not it.device.shareable)

    def _amounts(self, device: Device) -> Iterator[Amounts]:
        yield self._scene.usage.used.get(device.id, {})
        yield from (it.consumed for made in self.results for it in made if it.device is device)

    def _has_shares(self, device: Device) -> bool:
        usage = self._scene.usage
        if device.id in usage.shared and not self._scene.features.shares_need_amounts:
            return True
        return any(amounts for amounts in self._amounts(device))

    def _draw(self, candidate: Candidate) -> tuple[bool, Refused | None]:
        device = candidate.device
        if not device.consumes:
            return False, None
        if not self._scene.features.partitionable_devices:
            return False, Refused("CountersUnsupported")
        if device.shareable and self._has_shares(device):
            return False, None
        refused = self._counters.draw(candidate.pool, device)
        return refused is None, refused

    def _tainted(self, wanted: Wanted, device: Device) -> Refused | None:
        taint = untolerated(device.taints, wanted.tolerations)
        return Refused("TaintNotTolerated", taint_text(taint)) if taint else None

    def _constrained(self, claim: int, wanted: Wanted, device: Device) -> Refused | None:
        constraints = self._constraints[claim]
        for position, constraint in enumerate(constraints):
            refused = constraint.add(wanted, device)
            if refused is None:
                continue
            for earlier in constraints[:position]:
                earlier.remove(wanted, device)
            if wanted.mode == ALL:
                message = f"request {wanted.name}: device {device.id}: {refused}"
                raise FatalError(refused.code, message)
            return refused
        return None

    def _short_after_constraints(
        self, claim: int, wanted: Wanted, device: Device
    ) -> Refused | None:
        refused = self.shortage(wanted, device)
        if refused:
            for constraint in self._constraints[claim]:
                constraint.remove(wanted, device)
        return refused

    def _taken(self, wanted: Wanted, candidate: Candidate) -> Taken:
        device = candidate.device
        if not device.shareable:
            return Taken(wanted=wanted, pool=candidate.pool, device=device)
        return Taken(
            wanted=wanted,
            pool=candidate.pool,
            device=device,
            share_id=self._new_share_id(),
            consumed=consumption(wanted, device, self._scene.features),
        )
