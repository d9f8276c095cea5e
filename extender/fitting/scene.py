"""What stands fixed while one pod is tried on one node."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from extender.accounting import Ledger, quota_amounts
from extender.fitting.order import DevicePolicy
from extender.fitting.reasons import Tally
from extender.fitting.room import QuotaRoom
from extender.model import Ask, DeviceUsage, NodeUsage
from hami.devices import MigAllocation, PodDevice
from hami.vendors import Vendor


@dataclass(slots=True, kw_only=True)
class Scene:
    """A pod before a node, for one vendor."""

    node: NodeUsage
    ask: Ask
    word: str
    vendor: Vendor | None
    """`None` for NVIDIA, whose settings are of another kind."""
    policy: DevicePolicy
    room: QuotaRoom
    clock_ns: Callable[[], int]
    ledger: Ledger = field(default_factory=Ledger)
    taken: list[tuple[PodDevice, ...]] = field(default_factory=list)
    """What each container was given so far, at every position."""
    mig: list[MigAllocation] = field(default_factory=list)
    ends: bool = False
    """Whether the container that is tried is an ordinary init container."""
    allowed: frozenset[str] | None = None
    """The only UUIDs to consider; `None` for all."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's."""
        return self.ask.annotations

    def has_room(self, devices: list[PodDevice]) -> bool:
        """Tell whether the namespace may have *devices* beside what the pod was given."""
        total = self.ledger.with_more(devices, ends=self.ends)
        return self.room.has_room(self.word, *quota_amounts(self.word, total))


@dataclass(slots=True)
class Pick:
    """A device taken, not yet booked."""

    usage: DeviceUsage
    given: PodDevice
    instance: MigAllocation | None = None


@dataclass(slots=True)
class Refused:
    """Why no devices were found; *devices* is 0 where the node as a whole is the reason."""

    tally: Tally
    devices: int
