"""What a decision is made of: nodes with the use of their devices, what a pod asks, the answer.

State owns the mutable values here; whoever decides reads them and returns new ones. Usage is what
the annotations of live pods say, plus reservations that are under way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hami.devices import MigAllocation, RegisteredDevice, Slots
from hami.requests import Valid


@dataclass(slots=True, kw_only=True)
class DeviceUsage:
    """A device and what is taken of it."""

    device: RegisteredDevice
    used_slots: int = 0
    used_mib: int = 0
    used_cores: int = 0
    mig: list[MigAllocation] = field(default_factory=list)
    pods: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By UID: the annotations of the pods on it, for rules that look at neighbours."""


@dataclass(slots=True, kw_only=True)
class NodeUsage:
    """A node; devices by vendor's word, in the order in which the node registers them."""

    name: str
    devices: dict[str, list[DeviceUsage]]
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    capacity: Mapping[str, str]
    blocked: str | None = None
    """Why nothing new is placed here, such as a pod whose devices cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a pod wants, read once."""

    namespace: str
    name: str
    uid: str
    valid: Valid
    annotations: Mapping[str, str]
    version: str = ""
    """The pod's resource version, where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The administrator's choice, where a pod makes none."""

    node_policy: str = "binpack"
    gpu_policy: str = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the containers of a pod would go on one node."""

    node: str
    score: float
    """Higher is better under the policy in force; comparable between nodes."""
    slots: Mapping[str, Slots]
    """By vendor's word."""
    mig: tuple[MigAllocation, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What vendors want besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why a node cannot take a pod; *reasons* counts devices by HAMi's token."""

    node: str
    reasons: Mapping[str, int]
    devices: int
    """Of how many; 0 where the reason is about the node."""
    need: str = ""
    have: str = ""

    def __str__(self) -> str:
        """HAMi's text: `1/2 CardInsufficientMemory, 1/2 CardTypeMismatch`, sorted."""
        if not self.devices:
            return ", ".join(sorted(self.reasons))
        texts = (f"{count}/{self.devices} {reason}" for reason, count in self.reasons.items())
        return ", ".join(sorted(texts))
