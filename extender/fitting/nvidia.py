"""NVIDIA GPUs: cordon, NUMA runs, links and MIG instances beside what all vendors check."""

from collections.abc import Sequence
from dataclasses import replace

from extender.accounting import MIG_MODE, is_closed
from extender.fitting import migpacking, topology
from extender.fitting.reasons import Reason, Tally
from extender.fitting.room import ENDLESS
from extender.fitting.scene import Pick, Refused, Scene
from extender.fitting.walk import Walk
from extender.model import DeviceUsage
from hami import matching, nodenotes, userkeys
from hami.devices import MigAllocation, MigPlacement, MigProfile
from hami.requests import DeviceRequest


class NvidiaWalk(Walk):
    """One container's request of NVIDIA GPUs."""

    def __init__(self, scene: Scene, request: DeviceRequest) -> None:
        super().__init__(scene, request)
        self._modes = scene.annotations.get(userkeys.VGPU_MODE, "")
        self._numa_bind = scene.ask.valid.preferences.numa_bind
        self._linked = scene.policy.topology_aware

    def may_repeat(self, usages: Sequence[DeviceUsage]) -> bool:
        """Tell whether a GPU may serve the request several times, by several instances."""
        return (not self._modes.strip() or MIG_MODE in self._modes) and any(
            usage.device.mode == MIG_MODE for usage in usages
        )

    def fit(self, usages: Sequence[DeviceUsage]) -> list[Pick] | Refused:
        """Return GPUs, of one NUMA node where the pod is bound to one."""
        count, picks, tally = self.request.count, list[Pick](), Tally()
        numa = None
        for usage in reversed(usages):
            reason = self.unsuitable(usage)
            if reason:
                tally.count(reason)
                continue
            if self._numa_bind and usage.device.numa != numa:
                if len(picks) >= count:
                    break
                if picks:
                    tally.count(Reason.NUMA, len(picks))
                numa, picks = usage.device.numa, []
            self._collect(usage, picks, tally)
            if len(picks) >= count and not self._linked:
                return picks
        return self.settle(picks, tally, len(usages))

    def _collect(self, usage: DeviceUsage, picks: list[Pick], tally: Tally) -> None:
        """Add a GPU to *picks*, or as many of its instances as are of use."""
        while True:
            reason = self.unfit(usage, picks)
            if reason:
                tally.count(reason)
                return
            picks.append(self.pick(usage, picks))
            enough = len(picks) >= self.request.count and not self._linked
            if enough or usage.device.mode != MIG_MODE:
                return

    def choose(self, picks: list[Pick]) -> list[Pick]:
        """Return those that the links between GPUs speak for."""
        count = self.request.count
        if not self._linked or len(picks) == count:
            return picks[:count]
        uuids = [each.usage.device.uuid for each in picks]
        scores = topology.pair_scores(self.scene.node.annotations.get(nodenotes.SCORE, ""))
        if count == 1:
            return [picks[topology.least_linked(uuids, scores)]]
        return [picks[index] for index in topology.best_linked(uuids, count, scores)]

    def unsuitable(self, usage: DeviceUsage) -> Reason | None:
        """Return why a GPU is out; one whose instances contradict the books is not trusted."""
        if usage.device.healthy and is_closed(usage):
            return Reason.NOT_HEALTHY
        reason = super().unsuitable(usage)
        if (
            reason is None
            and self._modes
            and not matching.mode_matches(usage.device.mode, self._modes)
        ):
            return Reason.TYPE_MISMATCH
        if reason is None and self.scene.allowed is not None and usage.device.mode == MIG_MODE:
            return Reason.MODE
        return reason

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return what a GPU has too little of; one without memory never fits."""
        if usage.device.memory_mib <= 0:
            return Reason.TOO_LITTLE_MEMORY
        return super().lacks(usage, picks)

    def against_rule(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return why no instance can be made, beside those of *picks*."""
        if usage.device.mode != MIG_MODE:
            return None
        found = self._instance(usage, picks)
        if found is None:
            return Reason.MIG_PLACEMENT
        profile, _ = found
        here = [each for each in picks if each.usage is usage]
        memory_mib = sum(each.given.memory_mib for each in here) + profile.memory_mib
        if usage.used_slots + len(here) >= usage.device.count:
            return Reason.SLOTS_EXHAUSTED
        if usage.device.memory_mib - usage.used_mib < memory_mib:
            return Reason.TOO_LITTLE_MEMORY
        size = profile.memory_mib, profile.cores
        if self.scene.room is not ENDLESS and not self.has_room(usage, picks, *size):
            return Reason.QUOTA
        return None

    def pick(self, usage: DeviceUsage, picks: list[Pick]) -> Pick:
        """Take a GPU, or an instance, which is booked with the sizes of its profile."""
        if usage.device.mode != MIG_MODE:
            return super().pick(usage, picks)
        found = self._instance(usage, picks)
        if found is None:
            message = "an instance was counted on that cannot be made"
            raise AssertionError(message)
        profile, placement = found
        instance = MigAllocation(
            container_index=len(self.scene.taken),
            device_index=0,
            gpu_uuid=usage.device.uuid,
            profile=profile.name,
            placement=placement,
        )
        return Pick(usage, self.given(usage, profile.memory_mib, profile.cores), instance)

    def _instance(
        self, usage: DeviceUsage, picks: list[Pick]
    ) -> tuple[MigProfile, MigPlacement] | None:
        occupied = [each.placement for each in usage.mig]
        here = (each.instance for each in picks if each.usage is usage)
        occupied += [instance.placement for instance in here if instance]
        memory_mib, _ = self.sizes(usage)
        return migpacking.select(usage.device.mig_profiles, occupied, memory_mib)

    def book(self, picks: list[Pick]) -> None:
        """Take instances off their GPUs, too."""
        super().book(picks)
        for index, each in enumerate(picks):
            if each.instance:
                each.instance = replace(each.instance, device_index=index)
                each.usage.mig = [*each.usage.mig, each.instance]
