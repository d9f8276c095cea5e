"""How well pairs of cards are linked, in the points of HAMi's scheduler.

Its policy topology-aware puts containers on the cards whose pairs have the most points (HAMi v2.10:
`pkg/device/nvidia/calculate_score.go`). A pair of which one card alone knows of NVLinks has none.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from gpu.links import Link, Nearness
from hami.nodenotes import PairScores
from hami.plugin.model import Offer

_NEARNESS: Final[Mapping[Nearness | None, int]] = {
    Nearness.CROSS_CPU: 10,
    Nearness.SAME_CPU: 20,
    Nearness.HOST_BRIDGE: 30,
    Nearness.MULTI_SWITCH: 40,
    Nearness.SINGLE_SWITCH: 50,
    Nearness.SAME_BOARD: 60,
    None: 0,
}
_NVLINK: Final = 100


def score(link: Link) -> int:
    """Return the points of a pair."""
    if link.is_one_sided:
        return 0
    return _NEARNESS[link.nearness] + _NVLINK * min(link.nvlinks, link.nvlinks_back)


def scores(offer: Offer, links: Iterable[Link]) -> PairScores:
    """Return the points of all pairs of cards of *offer*, from either to the other."""
    found: dict[str, dict[str, int]] = {card.uuid: {} for card in offer.cards}
    for link in links:
        if link.one in found and link.other in found:
            points = score(link)
            found[link.one][link.other] = points
            found[link.other][link.one] = points
    return found
