"""Metrics of what the node offers, computed when they are asked for.

A card that is withheld is there and says that it is not managed, so that whoever looks for it finds
why its figures are missing. What is not known has no value.
"""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hami.devices import RegisteredDevice
from hami.plugin.current import CurrentOffer

_AMOUNTS: Final[dict[str, tuple[str, Callable[[RegisteredDevice], int]]]] = {
    "gpuslice_card_healthy": ("Whether a card may get new pods.", lambda card: int(card.healthy)),
    "gpuslice_card_memory_mib": (
        "Memory of a card as it is offered, scaled.",
        lambda card: card.memory_mib,
    ),
    "gpuslice_card_cores_percent": (
        "Cores of a card as they are offered, scaled.",
        lambda card: card.cores,
    ),
    "gpuslice_card_containers_max": (
        "How many containers may share a card.",
        lambda card: card.count,
    ),
}


class OfferCollector(Collector):
    """Looks at the offer at each scrape."""

    def __init__(self, current: CurrentOffer, problem: Callable[[], str | None]) -> None:
        """Prepare; *problem* says why the node's annotations are not as they should be."""
        self._current, self._problem = current, problem

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges as of now."""
        announced = self._problem() is None
        yield GaugeMetricFamily(
            "gpuslice_node_announced",
            "Whether the node's annotations say what it offers.",
            value=int(announced),
        )
        yield from self._of_config()
        yield from self._of_cards()

    def _of_config(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "gpuslice_node_config_findings",
            "Mistakes in the node configuration; with any, the one before stays in force.",
            value=len(self._current.findings()),
        )
        info = GaugeMetricFamily(
            "gpuslice_node_config_info",
            "The configuration in force: a hash of its values, and the entry that counts.",
            labels=["hash", "entry"],
        )
        config = self._current.config()
        if config is not None:
            info.add_metric([config.hash, config.winner], 1)
        yield info

    def _of_cards(self) -> Iterator[GaugeMetricFamily]:
        offer = self._current.offer()
        cards = offer.cards if offer else ()
        info = GaugeMetricFamily(
            "gpuslice_card_info",
            "A card of the node, and whether it is offered.",
            labels=["uuid", "managed"],
        )
        for card in cards:
            info.add_metric([card.uuid, "true"], 1)
        withheld = {each.uuid for each in offer.withheld} if offer else set()
        for uuid in sorted(withheld - {card.uuid for card in cards} - {""}):
            info.add_metric([uuid, "false"], 1)
        yield info
        for name, (text, amount) in _AMOUNTS.items():
            family = GaugeMetricFamily(name, text, labels=["uuid"])
            for card in cards:
                family.add_metric([card.uuid], amount(card))
            yield family
