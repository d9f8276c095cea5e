"""The walk over a node's devices that most vendors share, check by check in HAMi's order.

HAMi's backends are copies of one another: each device is counted under the first check that it
fails, from health to cores (HAMi v2.10: `Fit` in `pkg/device/*/device.go`). A vendor overrides
what it does otherwise. The cordon and the quota, which HAMi looks at for few vendors, hold for all.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from extender.fitting.reasons import Reason, Tally
from extender.fitting.room import ENDLESS
from extender.fitting.scene import Pick, Refused, Scene
from extender.fitting.scoring import memory_of
from extender.model import DeviceUsage
from hami import matching, nodenotes, userkeys
from hami.devices import PodDevice
from hami.requests import DeviceRequest

_ALL_CORES: Final = 100


class Walk:
    """One container's request of one vendor."""

    looks_at_all: bool = False
    """Whether it chooses among all devices that fit, not takes the first."""
    has_slots: ClassVar[bool] = True
    """Whether the count that a device registers bounds who may share it."""
    is_neutral: ClassVar[bool] = False
    """Whether more of `node_score` is better under every policy, and outweighs all else."""

    def __init__(self, scene: Scene, request: DeviceRequest) -> None:
        self.scene = scene
        self.request = request
        self.cores = min(request.cores, _ALL_CORES)
        self.mutex = scene.policy.mutex
        self._cordoned = cordoned(scene.node.annotations)
        annotations, vendor = scene.annotations, scene.vendor
        if vendor is None:
            self._uuids = _texts(annotations, (userkeys.USE_UUID,), (userkeys.NOUSE_UUID,))
            self._types = _texts(annotations, (userkeys.USE_TYPE,), (userkeys.NOUSE_TYPE,))
        else:
            self._uuids = _texts(annotations, vendor.use_uuid_keys, vendor.nouse_uuid_keys)
            self._types = _texts(annotations, vendor.use_type_keys, vendor.nouse_type_keys)

    def fit(self, usages: Sequence[DeviceUsage]) -> list[Pick] | Refused:
        """Return devices for the request, or why there are none; *usages* come worst first."""
        count, picks, tally = self.request.count, list[Pick](), Tally()
        for usage in reversed(usages):
            reason = self.unsuitable(usage) or self.unfit(usage, picks)
            if reason:
                tally.count(reason)
                continue
            picks.append(self.pick(usage, picks))
            if len(picks) == count and not self.looks_at_all:
                return picks
        return self.settle(picks, tally, len(usages))

    def settle(self, picks: list[Pick], tally: Tally, devices: int) -> list[Pick] | Refused:
        """Choose among *picks*, all that fit."""
        if len(picks) >= self.request.count:
            chosen = self.choose(picks)
            if chosen and self.may_have(chosen):
                return chosen
            if chosen:
                tally.count(Reason.QUOTA, len(chosen))
        if picks:
            tally.count(Reason.TOO_FEW_FITTING, len(picks))
        return Refused(tally, devices)

    def choose(self, picks: list[Pick]) -> list[Pick]:
        """Return as many of *picks* as are asked for; none where no choice will do."""
        return picks[: self.request.count]

    def unsuitable(self, usage: DeviceUsage) -> Reason | None:
        """Return why a device is out whatever is free on it."""
        device = usage.device
        if not device.healthy:
            return Reason.NOT_HEALTHY
        if device.uuid in self._cordoned:
            return Reason.CORDONED
        if self._types and not all(
            matching.type_matches(device.type, use=use, nouse=nouse) for use, nouse in self._types
        ):
            return Reason.TYPE_MISMATCH
        return None

    def unfit(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return why a device cannot take the request beside what it has."""
        return self.excluded(usage) or self.lacks(usage, picks) or self.against_rule(usage, picks)

    def excluded(self, usage: DeviceUsage) -> Reason | None:
        """Return why the pod or the number of its neighbours keeps it from a device."""
        device = usage.device
        if self._uuids and not all(
            matching.uuid_matches(device.uuid, use=use, nouse=nouse) for use, nouse in self._uuids
        ):
            return Reason.UUID_MISMATCH
        allowed = self.scene.allowed
        if allowed is not None and device.uuid not in allowed:
            return Reason.UUID_MISMATCH
        if self.has_slots and device.count <= usage.used_slots:
            return Reason.SLOTS_EXHAUSTED
        if self.mutex and usage.used_slots > 0:
            return Reason.EXCLUSIVE
        return None

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return what a device has too little of."""
        memory_mib, cores = self.sizes(usage)
        if self.scene.room is not ENDLESS and not self.has_room(usage, picks, memory_mib, cores):
            return Reason.QUOTA
        if usage.device.memory_mib - usage.used_mib < memory_mib:
            return Reason.TOO_LITTLE_MEMORY
        total = self.total_cores(usage)
        if total - usage.used_cores < cores:
            return Reason.TOO_FEW_CORES
        if total == cores == _ALL_CORES and usage.used_slots > 0:
            return Reason.EXCLUSIVE
        if total and usage.used_cores == total and not cores:
            return Reason.CORES_EXHAUSTED
        return None

    def against_rule(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return why a rule of the vendor's own forbids a device that has enough."""
        del usage, picks
        return None

    def sizes(self, usage: DeviceUsage) -> tuple[int, int]:
        """Return the MiB and cores that would be taken of a device."""
        return memory_of(self.request, usage.device.memory_mib), self.cores

    def says(self, resource: str) -> bool:
        """Tell whether the container names *resource*, not what follows from other resources."""
        said = self.scene.container.container.raw.get("resources")
        amounts = (said.get("limits"), said.get("requests")) if isinstance(said, Mapping) else ()
        return any(resource in each for each in amounts if isinstance(each, Mapping))

    def total_cores(self, usage: DeviceUsage) -> int:
        """Return the cores of a device."""
        return usage.device.cores

    def pick(self, usage: DeviceUsage, picks: list[Pick]) -> Pick:
        """Take a device that fits."""
        del picks
        memory_mib, cores = self.sizes(usage)
        return Pick(usage, self.given(usage, memory_mib, cores))

    def given(self, usage: DeviceUsage, memory_mib: int, cores: int) -> PodDevice:
        """Return what the annotations would say."""
        return PodDevice(
            uuid=usage.device.uuid, type=self.request.word, memory_mib=memory_mib, cores=cores
        )

    def has_room(
        self, usage: DeviceUsage, picks: Sequence[Pick], memory_mib: int, cores: int
    ) -> bool:
        """Tell whether the namespace may have a device beside as many of *picks* as it would get.

        A quota is for what is chosen, so all that fit may be looked at.
        """
        more = self.given(usage, memory_mib, cores)
        others = picks[: max(0, self.request.count - 1)]
        return self.scene.has_room([*(each.given for each in others), more])

    def may_have(self, picks: Sequence[Pick]) -> bool:
        """Tell whether the namespace may have *picks* together."""
        return self.scene.room is ENDLESS or self.scene.has_room([each.given for each in picks])

    def may_repeat(self, usages: Sequence[DeviceUsage]) -> bool:
        """Tell whether more can be asked for than there are devices."""
        del usages
        return False

    @classmethod
    def node_score(cls, scene: Scene) -> float:
        """Return what the vendor adds to the score of the node, as HAMi does."""
        del scene
        return 0.0

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return what the vendor's own parts want to read on the pod."""
        del scene
        return {}

    def book(self, picks: list[Pick]) -> None:
        """Take *picks* off the devices, so that the next container sees what is left."""
        for each in picks:
            usage, given = each.usage, each.given
            usage.used_slots += 1
            usage.used_mib += given.memory_mib
            usage.used_cores += given.cores


def cordoned(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the UUIDs on which nothing new is placed."""
    text = annotations.get(nodenotes.CORDON)
    return nodenotes.decode_cordon(text) if text else frozenset()


def _texts(
    annotations: Mapping[str, str], use_keys: Sequence[str], nouse_keys: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the pairs of what selects and what excludes; none that say nothing."""
    pairs = (
        (annotations.get(use, ""), annotations.get(nouse, ""))
        for use, nouse in zip(use_keys, nouse_keys, strict=True)
    )
    return [pair for pair in pairs if pair != ("", "")]
