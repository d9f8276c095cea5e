"""The nodes with their devices, and what is booked on each.

A booking may come before its node is known and stay while the node is away; it is added to the
node's devices whenever these are known, and each time anew when the node registers others. A
booking that a node cannot carry closes the node: its devices may be busy in ways nobody can tell.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from extender import accounting
from extender.accounting import Booking, Unaccounted
from extender.model import DeviceUsage, NodeUsage
from extender.state.reading import WatchedNode
from hami.devices import RegisteredDevice

LOST_DEVICES: Final = "gpuslice.io/lost-devices"
"""The administrator's annotation of a node: UUIDs of devices that are gone, whoever has them."""

Devices = Mapping[str, tuple[RegisteredDevice, ...]]
"""By vendor's word, in the order in which the node registers them."""


class Held(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something booked on one node, or a reason why nobody can tell what is."""

    key: str
    """Unique among what is booked anywhere; the pod's UID, and more where a pod has two."""
    uid: str
    node: str
    namespace: str
    name: str
    booking: Booking | None
    problem: str = ""
    """Closes the node."""
    is_bound: bool = False
    """The pod runs there, so that a device of its that nobody knows may be busy."""

    @property
    def pod(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True, kw_only=True)
class Place:
    """One node, be it known yet or only named by a booking."""

    name: str
    node: WatchedNode | None = None
    devices: Devices = field(default_factory=dict)
    problem: str = ""
    """Why devices that the node registers cannot be used."""
    usage: NodeUsage | None = None
    held: dict[str, Held] = field(default_factory=dict)
    complaints: dict[str, str] = field(default_factory=dict)
    """Why the node is closed, by the key of what closes it."""
    version: int = 0
    """Counts its changes."""

    def refusal(self) -> str | None:
        """Return why nothing can be placed here, whatever it is."""
        if self.usage is None or not any(self.usage.devices.values()):
            return self.problem or NOT_REGISTERED
        return self.usage.blocked


NOT_REGISTERED: Final = "node unregistered"
"""HAMi's words for a node that is not known, or has no devices."""


class Places:
    """All of them by name; *changed* is told of each whose usage or facts may have changed."""

    def __init__(self, changed: Callable[[Place], None]) -> None:
        self._changed = changed
        self._by_name: dict[str, Place] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Place]:
        return iter(self._by_name.values())

    def get(self, name: str) -> Place | None:
        """Return a place."""
        return self._by_name.get(name)

    def put_node(self, node: WatchedNode, devices: Devices, problem: str = "") -> None:
        """Take a new or changed node; devices that are the same keep their use."""
        place = self._by_name.get(node.name) or self._added(node.name)
        usage = place.usage
        same = devices == place.devices and lost_devices(node) == _lost(place)
        place.node, place.devices, place.problem = node, devices, problem
        if usage is not None and same:
            usage.annotations, usage.labels = node.annotations, node.labels
            usage.capacity = node.capacity
        else:
            held = tuple(place.held.values())
            place.usage, place.complaints = booked(node, devices, held)
        self._note(place)

    def drop_node(self, name: str) -> None:
        """Forget a node that is gone; what is booked on it is kept by its pods."""
        place = self._by_name.get(name)
        if place is None:
            return
        place.node, place.usage, place.devices, place.problem = None, None, {}, ""
        place.complaints = _problems(place)
        self._note(place)
        self._tidy(place)

    def hold(self, held: Held) -> None:
        """Book; raises `ValueError` for a key that is booked there already."""
        place = self._by_name.get(held.node) or self._added(held.node)
        if held.key in place.held:
            message = f"{held.key} is booked on {held.node} already"
            raise ValueError(message)
        place.held[held.key] = held
        if complaint := _book(place.usage, held, _lost(place)):
            place.complaints[held.key] = complaint
            _close(place)
        self._note(place)

    def release(self, held: Held) -> None:
        """Take a booking back."""
        place = self._by_name[held.node]
        del place.held[held.key]
        if place.usage is not None and held.booking is not None:
            accounting.undo(place.usage, held.booking)
        if place.complaints.pop(held.key, None):
            _close(place)
        self._note(place)
        self._tidy(place)

    def rebook(self, place: Place, expected: Iterable[Held]) -> None:
        """Have *expected* on a place in the place of whatever turned out to be wrong."""
        place.held = {held.key: held for held in expected}
        if place.node is None:
            place.complaints = _problems(place)
        else:
            held = tuple(place.held.values())
            place.usage, place.complaints = booked(place.node, place.devices, held)
        self._note(place)
        self._tidy(place)

    def _added(self, name: str) -> Place:
        place = self._by_name[name] = Place(name=name)
        return place

    def _note(self, place: Place) -> None:
        place.version += 1
        self._changed(place)

    def _tidy(self, place: Place) -> None:
        if place.node is None and not place.held:
            del self._by_name[place.name]


def fresh_usage(node: WatchedNode, devices: Devices) -> NodeUsage:
    """Return *node* with nothing booked on it."""
    return NodeUsage(
        name=node.name,
        devices={
            word: [DeviceUsage(device=each) for each in found] for word, found in devices.items()
        },
        annotations=node.annotations,
        labels=node.labels,
        capacity=node.capacity,
    )


def booked(
    node: WatchedNode, devices: Devices, held: Sequence[Held]
) -> tuple[NodeUsage, dict[str, str]]:
    """Return *node* with all of *held* on it, and why it is closed, by key."""
    usage = fresh_usage(node, devices)
    lost = lost_devices(node)
    complaints = {}
    for each in held:
        if complaint := _book(usage, each, lost):
            complaints[each.key] = complaint
    usage.blocked = blocked_by(complaints)
    return usage, complaints


def lost_devices(node: WatchedNode) -> frozenset[str]:
    """Return the UUIDs that an administrator declares gone."""
    said = node.annotations.get(LOST_DEVICES, "")
    return frozenset(filter(None, (each.strip() for each in said.split(","))))


def blocked_by(complaints: Mapping[str, str]) -> str | None:
    """Return the first complaint and how many others there are."""
    if not complaints:
        return None
    first = min(complaints.values())
    return first if len(complaints) == 1 else f"{first} (and {len(complaints) - 1} more)"


def _book(usage: NodeUsage | None, held: Held, lost: frozenset[str]) -> str:
    """Add to *usage* and return why that closes the node, if it does."""
    if usage is None or held.booking is None:
        return held.problem
    missing = accounting.apply(usage, held.booking)
    if held.problem or not held.is_bound:
        return held.problem
    unknown = [each for each in missing if _matters(each, usage, lost)]
    return f"pod {held.pod} uses unknown {unknown[0].uuid}" if unknown else ""


def _matters(missing: Unaccounted, usage: NodeUsage, lost: frozenset[str]) -> bool:
    """Tell whether a miss hides something, which takes other devices of the vendor."""
    return missing.uuid not in lost and bool(usage.devices.get(missing.word))


def _problems(place: Place) -> dict[str, str]:
    return {key: held.problem for key, held in place.held.items() if held.problem}


def _close(place: Place) -> None:
    if place.usage is not None:
        place.usage.blocked = blocked_by(place.complaints)


def _lost(place: Place) -> frozenset[str]:
    return lost_devices(place.node) if place.node else frozenset()
