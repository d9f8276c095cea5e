"""What stands fixed while one pod is tried on one node, and what it was given so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extender.accounting import Ledger, quota_amounts
from extender.fitting.order import DevicePolicy
from extender.fitting.reasons import Tally
from extender.fitting.room import QuotaRoom
from extender.model import Ask, DeviceUsage, NodeUsage
from hami.devices import MigAllocation, PodDevice, Slots
from hami.requests import ContainerRequest
from hami.vendors import Vendor


@dataclass(slots=True)
class Pick:
    """A device taken, not yet booked."""

    usage: DeviceUsage
    given: PodDevice
    instance: MigAllocation | None = None
    note: Any = None
    """What the vendor's rule wants to remember of the choice."""


@dataclass(slots=True)
class Refused:
    """Why no devices were found; *devices* is 0 where the node as a whole is the reason."""

    tally: Tally
    devices: int


@dataclass(slots=True, kw_only=True)
class Scene:
    """A pod before a node, for one vendor."""

    node: NodeUsage
    ask: Ask
    word: str
    vendor: Vendor | None
    """`None` for NVIDIA, whose settings are of another kind."""
    policy: DevicePolicy
    node_policy: str
    room: QuotaRoom
    clock_ns: Callable[[], int]
    ledger: Ledger
    allowed: frozenset[str] | None = None
    """The only UUIDs to consider; `None` for all."""
    taken: list[Sequence[Pick]] = field(default_factory=list)
    """What each container was given so far, at every position."""
    ends: bool = False
    """Whether the container that is tried is an ordinary init container."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's."""
        return self.ask.annotations

    @property
    def container(self) -> ContainerRequest:
        """The container that is tried."""
        return self.ask.valid.requests[len(self.taken)]

    @property
    def usages(self) -> Sequence[DeviceUsage]:
        """The vendor's devices as they are without the pod."""
        return self.node.devices.get(self.word, ())

    @property
    def slots(self) -> Slots:
        """What the annotations say, container by container."""
        return tuple(tuple(pick.given for pick in picks) for picks in self.taken)

    @property
    def instances(self) -> tuple[MigAllocation, ...]:
        """The MIG instances among it."""
        return tuple(pick.instance for picks in self.taken for pick in picks if pick.instance)

    def has_room(self, devices: list[PodDevice]) -> bool:
        """Tell whether the namespace may have *devices* beside what the pod was given."""
        total = self.ledger.with_more(devices, ends=self.ends)
        return self.room.has_room(self.word, *quota_amounts(self.word, total))
