"""How many nodes can take pods with devices, and which cannot although they have some.

Asked of every node once a minute and not at each scrape: a cluster has thousands of nodes, and
between two of them there may be a decision to make.
"""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extender.state.places import Place

_AT_ONCE = 100


class Standing(StrEnum):
    """What can be said of a node."""

    USABLE = "usable"
    WITHOUT_DEVICES = "without_devices"
    LEFT_OUT = "left_out"
    """It registers devices that cannot be read, or whose plugin gives no sign of life."""
    CLOSED = "closed"
    """Nobody can tell which of its devices are free."""


def standing_of(place: Place) -> Standing:
    """Return what can be said of one node."""
    if place.refusal() is None:
        return Standing.USABLE
    if place.usage is not None and any(place.usage.devices.values()):
        return Standing.CLOSED
    return Standing.LEFT_OUT if place.problem else Standing.WITHOUT_DEVICES


class Standings(Collector):
    """What was found last; nothing before the first look."""

    def __init__(self) -> None:
        self._found: dict[str, Standing] | None = None

    def look(self, places: tuple[Place, ...]) -> Iterator[None]:
        """Look at all of them; to be resumed until the end, with pauses at will."""
        found: dict[str, Standing] = {}
        for number, place in enumerate(places):
            if place.node is not None:
                found[place.name] = standing_of(place)
            if number % _AT_ONCE == _AT_ONCE - 1:
                yield
        self._found = found

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the numbers, and one series for each node that needs somebody."""
        nodes = GaugeMetricFamily(
            "gpuslice_extender_nodes",
            "Nodes by whether pods with devices may go there.",
            labels=["state"],
        )
        refused = GaugeMetricFamily(
            "gpuslice_extender_node_refused",
            "A node whose devices are given to nobody for the time being.",
            labels=["node", "state"],
        )
        if self._found is not None:
            counts = Counter(self._found.values())
            for standing in Standing:
                nodes.add_metric([standing.value], counts[standing])
        for name, standing in (self._found or {}).items():
            if standing in {Standing.LEFT_OUT, Standing.CLOSED}:
                refused.add_metric([name, standing.value], 1)
        yield from (nodes, refused)
