"""Ascend: soft and hard splits, networks of chips, and chips that share a module.

HAMi v2.10 (`pkg/device/ascend/device.go`): a pod that wants a soft split needs a node that does
it, where a chip counts 100 cores. Several chips of the 910 family come from as few networks as can
be, where nodes say which they are in; of the 910C whole modules of two are given. HAMi leaves it
to chance which of equal networks and modules comes first; here it is the one with the better chip.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from extender.fitting.grouping import largest_first, share_of_largest
from extender.fitting.reasons import Reason, Tally
from extender.fitting.scene import Pick, Refused, Scene
from extender.fitting.walk import Walk
from extender.model import DeviceUsage
from hami import gojson
from hami.requests import DeviceRequest
from hami.vendor_rules.ascend import MODE_KEY, SOFT, AscendRule

SOFT_NODE_KEY: Final = "hami-vnpu-core"
TIME_KEY: Final = "predicate-time"
_NETWORK: Final = "NetworkID"
_NETWORKED: Final = "Ascend910"
_PAIRED: Final = "Ascend910C"
_CHIPS_PER_MODULE: Final = 2
_SOFT_CORES: Final = 100
_NETWORK_WEIGHT: Final = 10
_NS_PER_S: Final = 1_000_000_000


class AscendWalk(Walk):
    """One container's request of one model."""

    def __init__(self, scene: Scene, request: DeviceRequest) -> None:
        super().__init__(scene, request)
        self._soft = scene.annotations.get(MODE_KEY) == SOFT
        self._by_module = scene.word == _PAIRED and request.count > 1
        self._by_network = _networked(scene)
        self.looks_at_all = self._by_module or self._by_network

    def fit(self, usages: Sequence[DeviceUsage]) -> list[Pick] | Refused:
        """Return chips; none of a node that does not split as the pod wants."""
        if self._soft and not _splits_softly(self.scene):
            return Refused(Tally({str(Reason.MODE): 1}), len(usages))
        return super().fit(usages)

    def total_cores(self, usage: DeviceUsage) -> int:
        """Return the cores of a chip under the split."""
        return _SOFT_CORES if self._soft else super().total_cores(usage)

    def settle(self, picks: list[Pick], tally: Tally, devices: int) -> list[Pick] | Refused:
        """Choose among the chips that fit; HAMi counts modules against the number asked for."""
        if not self._by_module:
            return super().settle(picks, tally, devices)
        whole = _whole_modules(picks)[: self.request.count]
        if len(whole) == self.request.count:
            if self.may_have(whole):
                return whole
            tally.count(Reason.QUOTA, len(whole))
        tally[Reason.TOO_FEW_FITTING] = len(whole)
        return Refused(tally, self.request.count)

    def choose(self, picks: list[Pick]) -> list[Pick]:
        """Return chips of as few networks as can be."""
        count = self.request.count
        if not self._by_network or count == 1:
            return picks[:count]
        return largest_first(picks, _network)[:count]

    @classmethod
    def node_score(cls, scene: Scene) -> float:
        """Return how close together the chips of each container are."""
        if not scene.word.startswith(_NETWORKED):
            return 0.0
        if any(_network(pick) is None for picks in scene.taken for pick in picks):
            return 0.0
        shares = (share_of_largest(picks, _network) for picks in scene.taken if picks)
        return _NETWORK_WEIGHT * sum(shares)

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return what the runtime reads of every chip, and when that was said, in seconds."""
        soft = scene.annotations.get(MODE_KEY) == SOFT
        chips = [_told(scene, pick, soft=soft) for picks in scene.taken for pick in picks]
        return {
            TIME_KEY: str(scene.clock_ns() // _NS_PER_S),
            f"huawei.com/{scene.word}": gojson.written(chips),
        }


def _splits_softly(scene: Scene) -> bool:
    said = scene.node.annotations.get(SOFT_NODE_KEY)
    if said is not None:
        return said == "true"
    rule = scene.vendor.rule if scene.vendor else None
    return isinstance(rule, AscendRule) and rule.soft_nodes


def _networked(scene: Scene) -> bool:
    usages = scene.usages
    told = all(_NETWORK in usage.device.custom for usage in usages)
    return scene.word.startswith(_NETWORKED) and bool(usages) and told


def _network(pick: Pick) -> int | None:
    said = pick.usage.device.custom.get(_NETWORK)
    return int(said) if isinstance(said, int | float) and abs(said) < 1 << 53 else None


def _whole_modules(picks: Sequence[Pick]) -> list[Pick]:
    modules: dict[int, list[Pick]] = {}
    for pick in picks:
        modules.setdefault(pick.usage.device.index // _CHIPS_PER_MODULE, []).append(pick)
    whole = (chips for chips in modules.values() if len(chips) == _CHIPS_PER_MODULE)
    return [pick for chips in whole for pick in chips]


def _told(scene: Scene, pick: Pick, *, soft: bool) -> dict[str, str | int]:
    """Return one chip as Go writes it: what is empty is left out."""
    given = pick.given
    fields: dict[str, str | int] = {
        "UUID": given.uuid,
        "temp": "" if soft else _template(scene, given.memory_mib),
        "memory": given.memory_mib,
        "core": given.cores,
    }
    return {key: value for key, value in fields.items() if value}


def _template(scene: Scene, memory_mib: int) -> str:
    """Return the name of the part that a chip is cut into; empty for the whole chip."""
    vendor = scene.vendor
    if vendor is None or not isinstance(vendor.rule, AscendRule):
        return ""
    units = memory_mib // vendor.memory_factor
    return next((each.name for each in vendor.rule.templates if units <= each.memory_mib), "")
