"""Metax's shared GPUs: classes of pods, policies of sharing, and zones of links.

HAMi v2.10 (`pkg/device/metax/sdevice.go`): pods of a class only join their like, and offline pods
never join online ones; others need a GPU of their policy. Online pods book no cores. HAMi keeps
the policy that a GPU is about to get until its node says it; here the pods on it say it at once.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import ClassVar, Final

from extender.fitting.grouping import grouped
from extender.fitting.reasons import Reason
from extender.fitting.scene import Pick, Scene
from extender.fitting.scoring import memory_of
from extender.fitting.walk import Walk
from extender.model import DeviceUsage
from hami import gojson
from hami.devices import PodDevice
from hami.matching import parsed_bool
from hami.register_metax import LINK_ZONE, QOS_POLICY
from hami.requests import DeviceRequest
from hami.vendor_rules.metax import APP_CLASS_KEY, QOS_KEY, TOPOLOGY_KEY, MetaxShareRule

ALLOCATED_KEY: Final = "metax-tech.com/gpu-devices-allocated"
TIME_KEY: Final = "metax-tech.com/predicate-time"
_ONLINE: Final = "online"
_OFFLINE: Final = "offline"
_ALL: Final = 100
_LINK: Final = 10


class MetaxShareWalk(Walk):
    """One container's request."""

    is_neutral: ClassVar[bool] = True
    looks_at_all = True

    def __init__(self, scene: Scene, request: DeviceRequest) -> None:
        super().__init__(scene, request)
        self._class = scene.annotations.get(APP_CLASS_KEY, "")

    def unsuitable(self, usage: DeviceUsage) -> Reason | None:
        """Return why a GPU is out; who is on it counts."""
        reason = super().unsuitable(usage)
        if reason:
            return Reason.METAX_NOT_HEALTHY if reason is Reason.NOT_HEALTHY else reason
        if not self._joins_class(usage):
            return Reason.METAX_CLASS
        if self._class != _ONLINE and not self._joins_policy(usage):
            return Reason.METAX_QOS
        return None

    def _joins_class(self, usage: DeviceUsage) -> bool:
        if not usage.used_slots:
            return True
        online, offline = _tasks(usage)
        if bool(online or offline) != (self._class in {_ONLINE, _OFFLINE}):
            return False
        return not (online and self._class == _OFFLINE)

    def _joins_policy(self, usage: DeviceUsage) -> bool:
        if not usage.used_slots or self.cores == _ALL:
            return True
        policy = _policy(usage)
        return not policy or policy == self.scene.annotations.get(QOS_KEY, "")

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return what a GPU has too little of; cores do not count for online pods."""
        reason = super().lacks(usage, picks)
        by_memory = {Reason.QUOTA, Reason.TOO_LITTLE_MEMORY}
        return reason if self._class != _ONLINE or reason in by_memory else None

    def sizes(self, usage: DeviceUsage) -> tuple[int, int]:
        """Return MiB and cores; online pods share all cores."""
        memory_mib = memory_of(self.request, usage.device.memory_mib)
        return memory_mib, 0 if self._class == _ONLINE else self.cores

    def given(self, usage: DeviceUsage, memory_mib: int, cores: int) -> PodDevice:
        """Return what the annotations would say."""
        device = usage.device
        return PodDevice(uuid=device.uuid, type=device.type, memory_mib=memory_mib, cores=cores)

    def choose(self, picks: list[Pick]) -> list[Pick]:
        """Return those with the fewest online tasks, or those that are linked."""
        count = self.request.count
        if self._class == _ONLINE:
            picks = sorted(picks, key=lambda pick: _crowd(pick.usage))
        elif APP_CLASS_KEY not in self.scene.annotations and self.request.cores == _ALL:
            picks = _linked_first(picks, count)
        return picks[:count]

    def book(self, picks: list[Pick]) -> None:
        """Let the pod be its own neighbour for its next container."""
        super().book(picks)
        for pick in picks:
            pick.usage.pods = {**pick.usage.pods, self.scene.ask.uid: self.scene.annotations}

    @classmethod
    def node_score(cls, scene: Scene) -> float:
        """Return how few tasks an online pod meets, or how little linkage whole GPUs cost."""
        if scene.annotations.get(APP_CLASS_KEY) == _ONLINE:
            return float(_quiet(scene))
        return float(_linkage(scene)) if _is_topology_aware(scene) else 0.0

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return what Metax's plugin reads of each container, and when that was said."""
        told = [[_told(pick.given) for pick in picks] for picks in scene.taken]
        return {ALLOCATED_KEY: gojson.written(told), TIME_KEY: str(scene.clock_ns())}


def _tasks(usage: DeviceUsage) -> tuple[int, int]:
    """Return how many online and offline pods are on a GPU."""
    classes = [annotations.get(APP_CLASS_KEY) for annotations in usage.pods.values()]
    return classes.count(_ONLINE), classes.count(_OFFLINE)


def _policy(usage: DeviceUsage) -> str:
    """Return the policy of the pods on a GPU, or what its node says of it."""
    for annotations in usage.pods.values():
        policy = annotations.get(QOS_KEY)
        if policy and annotations.get(APP_CLASS_KEY) != _ONLINE:
            return policy
    said = usage.device.custom.get(QOS_POLICY)
    return said if isinstance(said, str) else ""


def _crowd(usage: DeviceUsage) -> tuple[bool, int, int]:
    online, offline = _tasks(usage)
    return not online and offline > 0, online, offline


def _zone(pick: Pick) -> int:
    return _zone_of(pick.usage)


def _zone_of(usage: DeviceUsage) -> int:
    said = usage.device.custom.get(LINK_ZONE)
    return said if isinstance(said, int) and said > 0 else 0


def _linked_first(picks: list[Pick], count: int) -> list[Pick]:
    """Return *picks* with those of the smallest zone that is enough first, or across zones."""
    groups = grouped(picks, _zone)
    alone = groups.pop(0, [])
    zones = sorted(groups.values(), key=len)
    enough = next((zone for zone in zones if len(zone) >= count), None)
    return enough or [*(pick for zone in zones for pick in zone), *alone]


def _is_topology_aware(scene: Scene) -> bool:
    """Tell whether links count: as the pod says or, where that is no truth value, as configured."""
    if not any(pick.given.cores == _ALL for picks in scene.taken for pick in picks):
        return False
    said = parsed_bool(scene.annotations.get(TOPOLOGY_KEY, ""))
    if said is not None:
        return said
    rule = scene.vendor.rule if scene.vendor else None
    return isinstance(rule, MetaxShareRule) and rule.topology_aware


def _quiet(scene: Scene) -> int:
    taken = {pick.given.uuid for picks in scene.taken for pick in picks}
    score = 0
    for usage in scene.usages:
        if usage.device.uuid in taken:
            online, offline = _tasks(usage)
            score -= 20 * online + 2 * offline if online else 100 * offline
    return score


def _linkage(scene: Scene) -> int:
    """Return ten times the links that are given away less those that are lost for others."""
    whole = [pick for picks in scene.taken for pick in picks if pick.given.cores == _ALL]
    taken = {pick.given.uuid for pick in whole}
    idle = [usage for usage in scene.usages if not usage.used_slots]
    rest = [usage for usage in idle if usage.device.uuid not in taken]
    given = _links(_zone(pick) for pick in whole)
    lost = _links(map(_zone_of, idle)) - given - _links(map(_zone_of, rest))
    return 10 * given - lost


def _links(zones: Iterable[int]) -> int:
    return sum(_LINK for one, two in combinations(zones, 2) if one and one == two)


def _told(given: PodDevice) -> dict[str, str | int]:
    """Return one device as Go writes it: amounts of 0 are left out."""
    amounts = {"compute": given.cores, "vRam": given.memory_mib}
    return {"uuid": given.uuid} | {name: amount for name, amount in amounts.items() if amount}
