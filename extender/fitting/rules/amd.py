"""AMD: cores are compute units, and the annotation names the model.

HAMi v2.10 (`pkg/device/amd/device.go`): percent become units of the device, rounded down but at
least one; without any the whole memory takes all units. No device is exclusive to a request.
"""

from extender.fitting.reasons import Reason
from extender.fitting.room import ENDLESS
from extender.fitting.scene import Pick
from extender.fitting.scoring import memory_of
from extender.fitting.walk import Walk
from extender.model import DeviceUsage
from hami.devices import PodDevice

_ALL = 100


class AmdWalk(Walk):
    """One container's request."""

    def sizes(self, usage: DeviceUsage) -> tuple[int, int]:
        """Return MiB and compute units."""
        total_mib, units = usage.device.memory_mib, usage.device.cores
        memory_mib = memory_of(self.request, total_mib) or total_mib
        if self.cores:
            return memory_mib, min(max(units * self.cores // _ALL, 1), units)
        return memory_mib, units if 0 < total_mib <= memory_mib else 0

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return what a device has too little of."""
        memory_mib, units = self.sizes(usage)
        device = usage.device
        if self.scene.room is not ENDLESS and not self.has_room(usage, picks, memory_mib, units):
            return Reason.QUOTA
        if device.memory_mib - usage.used_mib < memory_mib:
            return Reason.TOO_LITTLE_MEMORY
        if self.cores and device.cores <= 0:
            return Reason.TOO_FEW_CORES
        return Reason.TOO_FEW_CORES if device.cores - usage.used_cores < units else None

    def given(self, usage: DeviceUsage, memory_mib: int, cores: int) -> PodDevice:
        """Return what the annotations would say."""
        device = usage.device
        return PodDevice(uuid=device.uuid, type=device.type, memory_mib=memory_mib, cores=cores)
