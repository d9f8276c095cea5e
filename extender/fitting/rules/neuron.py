"""AWS Neuron: cores are bits of a mask, and several devices must sit in a row.

HAMi v2.10 (`pkg/device/awsneuron/device.go`): on Inferentia any run of idle devices will do, else
runs of 1, 4, 8 or 16 that begin at a multiple of their length. HAMi looks at constraints of UUIDs
for single devices only and knows no third core; here they hold for all, and all cores are used.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from extender.fitting.reasons import Reason, Tally
from extender.fitting.room import ENDLESS
from extender.fitting.scene import Pick, Refused, Scene
from extender.fitting.walk import Walk
from extender.model import DeviceUsage

IDS_KEY: Final = "AWS_NEURON_IDS"
TIME_KEY: Final = "NEURON_ALLOC_TIME"
ALLOCATED_KEY: Final = "NEURON_ALLOCATED"
TYPE_KEY: Final = "NEURON_RESOURCE_TYPE"
NODE_KEY: Final = "aws.amazon.com/predicate-node"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_RUNS: Final = (1, 4, 8, 16)


class NeuronWalk(Walk):
    """One container's request of devices or of cores of one."""

    def fit(self, usages: Sequence[DeviceUsage]) -> list[Pick] | Refused:
        """Return one device by policy, or several in a row."""
        if self.request.count == 1:
            return super().fit(usages)
        tally = Tally()
        idle: dict[int, DeviceUsage] = {}
        for usage in usages:
            reason = self.unsuitable(usage) or self.unfit(usage, [])
            if reason:
                tally.count(reason)
            else:
                idle[usage.device.index] = usage
        picks = [self.pick(idle[index], []) for index in self._run(idle)]
        if picks and self.may_have(picks):
            return picks
        reason = Reason.QUOTA if picks else Reason.NUMA
        return Refused(Tally({str(reason): len(picks) or 1}), len(usages))

    def _run(self, idle: Mapping[int, DeviceUsage]) -> range:
        count = self.request.count
        anywhere = "inf" in self.scene.node.labels.get(INSTANCE_TYPE, "").lower()
        if not anywhere and count not in _RUNS:
            return range(0)
        for start in sorted(idle):
            run = range(start, start + count)
            if (anywhere or start % count == 0) and all(index in idle for index in run):
                return run
        return range(0)

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return what a device has too little of."""
        if self.request.count > 1:
            return Reason.EXCLUSIVE if usage.used_slots > 0 else None
        _, mask = self.sizes(usage)
        if not mask:
            return Reason.TOO_FEW_CORES
        if self.scene.room is not ENDLESS and not self.has_room(usage, picks, 0, mask):
            return Reason.QUOTA
        return None

    def sizes(self, usage: DeviceUsage) -> tuple[int, int]:
        """Return the mask of the lowest free cores; 0 where too few are free."""
        device = usage.device
        free = device.cores & ~usage.used_cores
        if self.request.count > 1 or self._wants_whole():
            return 0, device.cores if free == device.cores else 0
        mask = 0
        for _ in range(self.request.cores):
            lowest = free & -free
            if not lowest:
                return 0, 0
            mask |= lowest
            free &= ~lowest
        return 0, mask

    def _wants_whole(self) -> bool:
        vendor = self.scene.vendor
        return vendor is not None and self.says(vendor.count_name)

    def pick(self, usage: DeviceUsage, picks: list[Pick]) -> Pick:
        """Take a device, remembering whether cores or whole devices were asked for."""
        found = super().pick(usage, picks)
        found.note = self._wants_whole()
        return found

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return the indices of devices or of cores, and when and where that was said."""
        picks = [pick for taken in scene.taken for pick in taken]
        found = {
            IDS_KEY: ",".join(str(index) for pick in picks for index in _indices(pick)),
            TIME_KEY: str(scene.clock_ns()),
            ALLOCATED_KEY: "false",
            NODE_KEY: scene.node.name,
        }
        if scene.vendor and not all(pick.note for pick in picks):
            found[TYPE_KEY] = scene.vendor.core_name
        return found


def _indices(pick: Pick) -> list[int]:
    device = pick.usage.device
    if pick.note:
        return [device.index]
    per_device = device.cores.bit_length()
    mask = pick.given.cores
    return [per_device * device.index + bit for bit in range(per_device) if mask >> bit & 1]
