"""Whether what is booked is what pods and promises say, reckoned from the beginning.

Usage is kept by adding and taking away, so one lost step would make a device look busy, or free,
until the next start. Everything is therefore reckoned again from what is known of the pods, in
steps small enough for decisions to come in between. Nodes and namespaces that changed meanwhile
are left to the next time; what differs in the others is replaced.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import structlog

from extender.accounting import quota_amounts
from extender.model import NodeUsage
from extender.state.bounds import Amounts
from extender.state.cluster import Cluster
from extender.state.places import Held, Place, booked

log = structlog.get_logger(__name__)

_PODS_AT_ONCE: Final = 20
_NODES_AT_ONCE: Final = 2


@dataclass(slots=True, kw_only=True)
class Audit:
    """One run over everything; *nodes* and *namespaces* are those that had to be replaced."""

    cluster: Cluster
    nodes: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)

    def run(self) -> Iterator[None]:
        """Reckon, compare and replace; to be resumed until the end, with pauses at will."""
        cluster = self.cluster
        versions = {place.name: place.version for place in cluster.places}
        changes = cluster.bounds.changes()
        expected: dict[str, list[Held]] = {name: [] for name in versions}
        used: dict[str, dict[str, Amounts]] = {}
        for number, (uid, holder) in enumerate(cluster.holders()):
            for held in cluster.reckoned(uid, holder):
                expected.setdefault(held.node, []).append(held)
                _count(used, held)
            if number % _PODS_AT_ONCE == _PODS_AT_ONCE - 1:
                yield
        for number, (name, version) in enumerate(versions.items()):
            place = cluster.places.get(name)
            if place is not None and place.version == version:
                self._compare(place, expected[name])
            if number % _NODES_AT_ONCE == _NODES_AT_ONCE - 1:
                yield
        self._compare_bounds(used, changes)

    def _compare(self, place: Place, expected: list[Held]) -> None:
        same = {held.key: held for held in expected} == place.held
        if same and place.node is not None:
            usage, _ = booked(place.node, place.devices, expected)
            same = place.usage is not None and facts(usage) == facts(place.usage)
        if not same:
            log.error("usage of a node was wrong", node=place.name, pods=len(expected))
            self.nodes.append(place.name)
            self.cluster.rebook(place, expected)

    def _compare_bounds(self, used: dict[str, dict[str, Amounts]], changes: dict[str, int]) -> None:
        bounds = self.cluster.bounds
        now, later = bounds.used(), bounds.changes()
        for namespace in used.keys() | now.keys():
            unchanged = changes.get(namespace, 0) == later.get(namespace, 0)
            if unchanged and now.get(namespace, {}) != used.get(namespace, {}):
                log.error("quota of a namespace was counted wrongly", namespace=namespace)
                self.namespaces.append(namespace)
                bounds.replace_used(namespace, used.get(namespace, {}))


def recompute(cluster: Cluster) -> dict[str, NodeUsage]:
    """Return the usage of every known node, reckoned from pods and promises alone."""
    expected: dict[str, list[Held]] = {}
    for uid, holder in cluster.holders():
        for held in cluster.reckoned(uid, holder):
            expected.setdefault(held.node, []).append(held)
    return {
        place.name: booked(place.node, place.devices, expected.get(place.name, ()))[0]
        for place in cluster.places
        if place.node is not None
    }


def facts(usage: NodeUsage) -> tuple[object, ...]:
    """Return what must be the same of two usages; the order of bookings does not matter."""
    return (
        usage.name,
        usage.blocked,
        {
            word: [
                (
                    *(each.device, each.used_slots, each.used_mib, each.used_cores),
                    sorted(map(repr, each.mig)),
                    each.pods,
                )
                for each in devices
            ]
            for word, devices in usage.devices.items()
        },
    )


def _count(used: dict[str, dict[str, Amounts]], held: Held) -> None:
    for word, uses in held.booking.uses.items() if held.booking else ():
        memory_mib, cores = quota_amounts(word, uses)
        words = used.setdefault(held.namespace, {})
        had = words.get(word, (0, 0))
        words[word] = (had[0] + memory_mib, had[1] + cores)
