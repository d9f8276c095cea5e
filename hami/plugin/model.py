"""What the parts of the device plugin hand to one another: plain values, no I/O.

There is one list of cards. What kubelet is offered, what the node's annotation says and what may be
handed out are made of it, so that a card that is withheld from one is withheld from all.
"""

from dataclasses import dataclass

from gpu.model import GpuUuid
from hami.devices import PodDevice, RegisteredDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """A GPU of the node that is offered to nobody."""

    uuid: GpuUuid
    reason: str
    """One sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The node's cards at one moment; both lists are sorted by PCI bus id."""

    cards: tuple[RegisteredDevice, ...]
    """Memory and cores as scaled; a card that is ill is there and not *healthy*."""
    withheld: tuple[Withheld, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one container of a pod is to get, once that is decided and verified."""

    pod_uid: str
    namespace: str
    pod: str
    container: str
    """Its name; unique among init and app containers of a pod."""
    devices: tuple[PodDevice, ...]
    """Sorted by PCI bus id, which is the order in which CUDA numbers them."""
    disables_control: bool = False
    """Whether the container's own environment asks to run without limits."""
    priority: int | None = None
