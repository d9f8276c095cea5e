"""An explanation as plain values, which `--json` prints as they are.

Reasons are `gpu.refusal.Refusal`s: codes are stable, the other texts are for people. A remedy
says what has to happen first; that something would be enough is said by `Change`s alone, which
were all tried.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpu.refusal import Refusal


class Verdict(StrEnum):
    """How it stands with the subject."""

    FITS = "fits"
    """It is not placed yet, and can be."""
    PENDING = "pending"
    ALLOCATED = "allocated"
    """The claim has devices."""
    SCHEDULED = "scheduled"
    """The pod has a node."""
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is explained."""

    kind: str
    """`Pod` or `ResourceClaim`."""
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{'pod' if self.kind == 'Pod' else 'claim'} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request of a claim, or one alternative of a request."""

    claim: str
    request: str
    device_class: str
    count: int | None
    """`None` for all devices."""
    capacity: Mapping[str, str] = field(default_factory=dict)
    admin_access: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """One device that a claim has, or would get."""

    claim: str
    request: str
    driver: str
    pool: str
    device: str
    consumed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A claim that holds the device, or a part of it."""

    claim: str
    pods: tuple[str, ...] = ()
    """Pods that the claim is reserved for, in the claim's namespace."""
    amount: str = ""
    """What it holds of the capacity that is too low; empty for the whole device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReason:
    """The first rule that refused a device to a request."""

    claim: str
    request: str
    driver: str = ""
    pool: str = ""
    device: str = ""
    """Empty where the whole pool, or no single device, is to blame."""
    refusal: Refusal
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReason:
    """Why a node cannot serve the pod; *devices* say more where they are to blame."""

    node: str
    refusal: Refusal
    devices: tuple[DeviceReason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change with which it was tried again and fits."""

    code: str
    field: str
    """Where to change, as a path in an object or the object itself."""
    before: str
    after: str
    sentence: str
    node: str
    """Where it fits then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All there is to say about one pod or claim."""

    subject: Subject
    verdict: Verdict
    message: str
    release: str
    """Whose rules were applied, such as `1.37`."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates that are not as the release has them by default."""
    node: str = ""
    asked: tuple[Asked, ...] = ()
    given: tuple[Given, ...] = ()
    reasons: tuple[Refusal, ...] = ()
    """What stands against every node."""
    nodes: tuple[NodeReason, ...] = ()
    nodes_total: int = 0
    changes: tuple[Change, ...] = ()
    """The smallest first."""
    scheduler_says: str = ""
    notes: tuple[str, ...] = ()
