"""Kunlun: eight devices on two wings, given so that what is left stays useful.

HAMi v2.10 (`pkg/device/kunlun`): 1, 2, 4 or 8 devices of the wing whose free devices match best,
else pairs and fours across the wings that are linked. HAMi tells the wings by the order in which
the policy sorted devices and reads past the end of fewer than eight; here the index tells them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Final

from extender.fitting.reasons import Reason, Tally
from extender.fitting.scene import Pick, Refused, Scene
from extender.fitting.walk import Walk
from extender.model import DeviceUsage

INDEX_KEY: Final = "BAIDU_COM_DEVICE_IDX"
_WING: Final = 4
_ACROSS: Final = ((0, 4), (1, 5), (2, 6), (3, 7))
_FOURS: Final = (
    (0, 1, 4, 5),
    (2, 3, 6, 7),
    (0, 2, 4, 6),
    (1, 3, 5, 7),
    (0, 3, 4, 7),
    (1, 2, 5, 6),
)
_BEST_FOR_ONE: Final = (1, 3, 2, 4)
"""How many are free on the wing from which a single device is taken, best first."""
_SCORES: Final = {-1: 3000.0, 0: 2000.0, 1: 1000.0, 2: 0.0}


def select(free: Collection[int], count: int) -> tuple[int, ...]:
    """Return the indices of *count* devices of those that are *free*; none where none will do."""
    known = sorted(index for index in free if 0 <= index < 2 * _WING)
    if count == 2 * _WING:
        return tuple(known) if len(known) == count else ()
    left = [index for index in known if index < _WING]
    right = [index for index in known if index >= _WING]
    wanted = _BEST_FOR_ONE if count == 1 else range(count, _WING + 1)
    for number in wanted:
        for wing in (left, right):
            if len(wing) == number:
                return tuple(wing[:count])
    return _across(known, count)


def _across(free: Sequence[int], count: int) -> tuple[int, ...]:
    """Return linked devices of both wings."""
    if count == 2:
        return next((pair for pair in _ACROSS if set(pair) <= set(free)), ())
    if count != _WING or len(free) not in {4, 5, 6}:
        return ()
    fours = [four for four in _FOURS if set(four) <= set(free)]
    if len(free) < 6:
        return fours[0] if fours else ()
    linked = (four for four in fours if _are_linked(set(free) - set(four)))
    return next(linked, fours[-1] if fours else ())


def _are_linked(pair: set[int]) -> bool:
    same_wing = len({index // _WING for index in pair}) == 1
    return same_wing or tuple(sorted(pair)) in _ACROSS


class KunlunWalk(Walk):
    """One container's request of whole devices."""

    def fit(self, usages: Sequence[DeviceUsage]) -> list[Pick] | Refused:
        """Return devices by where they sit, whatever the policy."""
        tally = Tally()
        free: dict[int, DeviceUsage] = {}
        for usage in usages:
            reason = self.unsuitable(usage) or self.unfit(usage, [])
            if reason:
                tally.count(reason)
            else:
                free[usage.device.index] = usage
        picks = [self.pick(free[index], []) for index in select(free, self.request.count)]
        if picks and self.may_have(picks):
            return picks
        return Refused(self._why(tally, picks), len(usages))

    def _why(self, tally: Tally, picks: list[Pick]) -> Tally:
        """Return HAMi's reason; those of single devices are told where they tell more."""
        if picks:
            return Tally({str(Reason.QUOTA): len(picks)})
        for reason in self.telling:
            if reason in tally:
                return Tally({str(reason): tally[reason]})
        return Tally({str(Reason.NUMA): 1})

    telling: Sequence[Reason] = (
        Reason.UUID_MISMATCH,
        Reason.CORDONED,
    )
    """What is told instead of that nothing free sits together."""

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return that a device is in use, if it is."""
        del picks
        return Reason.EXCLUSIVE if usage.used_slots > 0 else None

    def sizes(self, usage: DeviceUsage) -> tuple[int, int]:
        """Return all of a device."""
        return usage.device.memory_mib, usage.device.cores

    @classmethod
    def node_score(cls, scene: Scene) -> float:
        """Return how little the pod breaks wings up: HAMi calls what is left over bubbles."""
        if any(usages and word != scene.word for word, usages in scene.node.devices.items()):
            return 0.0
        before = {usage.device.index for usage in scene.usages if usage.used_slots > 0}
        taken = {pick.usage.device.index for picks in scene.taken for pick in picks}
        return _SCORES.get(_bubbles(before | taken) - _bubbles(before), 1000.0)

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return the indices of the last container's devices."""
        last = next((picks for picks in reversed(scene.taken) if picks), ())
        return {INDEX_KEY: ",".join(str(pick.usage.device.index) for pick in last)}


class KunlunShareWalk(KunlunWalk):
    """One container's request of parts, of which a device holds only equal ones."""

    has_slots: ClassVar[bool] = False
    """HAMi does not look at the count, which may be 1: the size of the parts decides alone."""
    telling: Sequence[Reason] = (Reason.EXCLUSIVE, Reason.UUID_MISMATCH, Reason.CORDONED)

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return why a part of this size cannot join those that a device holds."""
        del picks
        memory_mib, _ = self.sizes(usage)
        if usage.used_mib + memory_mib > usage.device.memory_mib:
            return Reason.TOO_LITTLE_MEMORY
        if usage.used_slots and usage.used_mib // usage.used_slots != memory_mib:
            return Reason.VENDOR_RULE
        return None

    def sizes(self, usage: DeviceUsage) -> tuple[int, int]:
        """Return the part."""
        return Walk.sizes(self, usage)

    @classmethod
    def node_score(cls, scene: Scene) -> float:
        """Return nothing."""
        del scene
        return 0.0

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return nothing."""
        del scene
        return {}


def _bubbles(used: Collection[int]) -> int:
    """Return how broken up the wings are; an idle node counts as one that is half full."""
    if not used:
        return 1
    wings = sum(index < _WING for index in used), sum(index >= _WING for index in used)
    return sum(0 if number == _WING else 2 if number == 1 else 1 for number in wings)
