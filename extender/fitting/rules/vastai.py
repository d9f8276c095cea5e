"""Vastai and Biren: devices are counted and nothing else is; Vastai's may be dies of one card.

HAMi v2.10 (`pkg/device/vastai/device.go`, `pkg/device/biren/device.go`): on a node of dies several
come from as few cards as can be, and a pod that wants its device alone gets no die of a card that
is in use.
"""

from collections.abc import Sequence

from extender.fitting.grouping import largest_first, share_of_largest
from extender.fitting.reasons import Reason
from extender.fitting.room import ENDLESS
from extender.fitting.scene import Pick, Refused, Scene
from extender.fitting.walk import Walk
from extender.model import DeviceUsage
from hami.requests import DeviceRequest

_CARD = "AIC"
_STRATEGY = "DeviceStrategy"
_DIES = "die"


class CountWalk(Walk):
    """One container's request of devices without a size."""

    def sizes(self, usage: DeviceUsage) -> tuple[int, int]:
        """Return nothing."""
        del usage
        return 0, self.cores

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return whether the namespace lacks anything: devices do not."""
        if self.scene.room is not ENDLESS and not self.has_room(usage, picks, 0, self.cores):
            return Reason.QUOTA
        return None


class VastaiWalk(CountWalk):
    """One container's request of Vastai's devices."""

    def __init__(self, scene: Scene, request: DeviceRequest) -> None:
        super().__init__(scene, request)
        self.looks_at_all = _has_dies(scene)
        self._busy_cards = frozenset[str]()

    def fit(self, usages: Sequence[DeviceUsage]) -> list[Pick] | Refused:
        """Return devices, knowing which cards are in use."""
        busy = (_card_of(usage) for usage in usages if usage.used_slots > 0)
        self._busy_cards = frozenset(card for card in busy if card is not None)
        return super().fit(usages)

    def excluded(self, usage: DeviceUsage) -> Reason | None:
        """Return why a device is not for the pod; a busy die makes its card busy."""
        reason = super().excluded(usage)
        if reason is None and self.mutex and self.looks_at_all:
            return Reason.EXCLUSIVE if _card_of(usage) in self._busy_cards else None
        return reason

    def choose(self, picks: list[Pick]) -> list[Pick]:
        """Return dies of as few cards as can be."""
        if not self.looks_at_all or self.request.count == 1:
            return super().choose(picks)
        return largest_first(picks, _card)[: self.request.count]

    @classmethod
    def node_score(cls, scene: Scene) -> float:
        """Return how close together the dies of each container are."""
        if not _has_dies(scene):
            return 0.0
        if any(_card(pick) is None for picks in scene.taken for pick in picks):
            return 0.0
        return sum(share_of_largest(picks, _card) for picks in scene.taken if picks)


def _has_dies(scene: Scene) -> bool:
    usages = scene.usages
    first = min(usages, key=lambda usage: usage.device.index) if usages else None
    return first is not None and first.device.custom.get(_STRATEGY) == _DIES


def _card_of(usage: DeviceUsage) -> str | None:
    said = usage.device.custom.get(_CARD)
    return said if isinstance(said, str) else None


def _card(pick: Pick) -> str | None:
    return _card_of(pick.usage)
