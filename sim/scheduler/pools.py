"""Which pools a node can use, and whether they are whole (allocator: pools_incubating.go).

A pool counts only in its newest generation and only when all its slices are there. An incomplete
pool stays as a marker, because a request for all devices must not miss some of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sim.scheduler.devices import Counters, Device, Place, Slice
from sim.scheduler.features import Features
from sim.scheduler.nodes import Node, selects


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """The devices of one driver and pool name as one node sees them."""

    driver: str
    name: str
    slices: tuple[Slice, ...] = ()
    """Those with devices for this node, sorted by object name."""
    elsewhere: tuple[Slice, ...] = ()
    """Those whose devices this node cannot use; they draw on the same counters."""
    counter_sets: tuple[tuple[str, Counters], ...] = ()
    incomplete: bool = False
    invalid: str = ""
    """Why the pool cannot be used although it is complete."""

    @property
    def usable(self) -> bool:
        """Tell whether devices can be taken from the pool."""
        return not self.incomplete and not self.invalid

    @property
    def waits_for_binding(self) -> bool:
        """Tell whether some device has binding conditions, which makes the pool a last resort."""
        return any(made.binding_conditions for part in self.slices for made in part.devices)


def reaches(place: Place, node: Node) -> bool:
    """Tell whether *node* is one of those that *place* names."""
    if place.node_name:
        return place.node_name == node.name
    if place.all_nodes:
        return True
    return place.node_selector is not None and selects(place.node_selector, node)


class SliceIndex:
    """The slices of a cluster, found by node and by pool: most nodes can reach only a few."""

    def __init__(self, slices: Iterable[Slice], features: Features) -> None:
        self._features = features
        self._by_node: dict[str, list[Slice]] = {}
        """By the node that a slice names, empty for those that name none."""
        self._by_pool: dict[tuple[str, str], list[Slice]] = {}
        for part in slices:
            self._by_node.setdefault(self._node_name(part), []).append(part)
            self._by_pool.setdefault((part.driver, part.pool), []).append(part)

    def pools(self, node: Node) -> tuple[Pool, ...]:
        """Return the pools of *node* in the order in which they are searched."""
        grouped: dict[tuple[str, str], list[Slice]] = {}
        for part in self._candidates(node):
            if self._relevant(part, node):
                grouped.setdefault((part.driver, part.pool), []).append(part)
        pools = [
            pool
            for (driver, name), parts in grouped.items()
            if (pool := _pool(driver, name, parts, self._by_pool[driver, name])) is not None
        ]
        return tuple(sorted(pools, key=_order))

    def _candidates(self, node: Node) -> list[Slice]:
        own = self._by_node.get(node.name, []) if node.name else []
        return own + self._by_node.get("", [])

    def _node_name(self, part: Slice) -> str:
        everywhere = part.counter_sets and self._features.counters_for_all_nodes
        return "" if everywhere else part.place.node_name

    def _relevant(self, part: Slice, node: Node) -> bool:
        if part.counter_sets and self._features.counters_for_all_nodes:
            return True
        if part.per_device:
            return any(made.place and reaches(made.place, node) for made in part.devices)
        return reaches(part.place, node)


def _order(pool: Pool) -> tuple[bool, bytes, bytes]:
    return pool.waits_for_binding, pool.driver.encode(), pool.name.encode()


def _pool(driver: str, name: str, parts: list[Slice], whole: list[Slice]) -> Pool | None:
    newest = max(part.generation for part in parts)
    kept = [part for part in parts if part.generation == newest]
    elsewhere: list[Slice] = []
    if len(kept) != kept[0].count:
        if any(part.generation > newest for part in whole):
            return None
        current = [part for part in whole if part.generation == newest]
        if len(current) != kept[0].count:
            return Pool(driver=driver, name=name, incomplete=True)
        elsewhere = [part for part in current if part not in kept]
    return _built(driver, name, kept, elsewhere)


def _built(driver: str, name: str, kept: list[Slice], elsewhere: list[Slice]) -> Pool:
    kept, elsewhere = (sorted(parts, key=_slice_order) for parts in (kept, elsewhere))
    counter_sets = tuple(made for part in (*kept, *elsewhere) for made in part.counter_sets)
    slices = tuple(part for part in kept if part.devices or not part.counter_sets)
    return Pool(
        driver=driver,
        name=name,
        slices=slices,
        elsewhere=tuple(elsewhere),
        counter_sets=counter_sets,
        invalid=_fault(slices, elsewhere, counter_sets),
    )


def _slice_order(part: Slice) -> bytes:
    return part.name.encode()


def _fault(
    slices: Iterable[Slice],
    elsewhere: Iterable[Slice],
    counter_sets: tuple[tuple[str, Counters], ...],
) -> str:
    devices = [made for part in slices for made in part.devices]
    repeated = _repeated(made.id.device for made in devices)
    if repeated:
        return f"device name {repeated} is not unique"
    repeated = _repeated(name for name, _ in counter_sets)
    if repeated:
        return f"counter set {repeated} is not unique"
    known = dict(counter_sets)
    for made in [*devices, *(made for part in elsewhere for made in part.devices)]:
        fault = _unknown_counter(made, known)
        if fault:
            return fault
    return ""


def _repeated(names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def _unknown_counter(device: Device, known: dict[str, Counters]) -> str:
    for set_name, counters in device.consumes:
        if set_name not in known:
            return f"device {device.id.device} consumes unknown counter set {set_name}"
        for counter in counters:
            if counter not in known[set_name]:
                return f"device {device.id.device} consumes unknown counter {set_name}/{counter}"
    return ""
