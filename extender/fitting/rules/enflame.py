"""Enflame: profiles of DRS devices, and whole cards.

HAMi v2.10 (`pkg/device/enflame`): a request names a profile by its size, or the smallest one is
taken that has the memory and the cores; a number of memory beyond twice the largest profile's GB is
MiB. Which profiles there are stands on the nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from extender.fitting.reasons import Reason, Tally
from extender.fitting.room import ENDLESS
from extender.fitting.scene import Pick, Refused, Scene
from extender.fitting.walk import Walk
from extender.model import DeviceUsage
from hami import gojson
from hami.register_enflame import INDEX, MAX_SLICE, MINOR, PROFILES, profile_size

ASSIGNED_KEY: Final = "enflame.com/gcu-assigned"
TIME_KEY: Final = "enflame.com/gcu-assigned-time"
INDEX_KEY: Final = "enflame.com/gcu-assigned-index"
ID_KEY: Final = "enflame.com/gcu-assigned-id"
MINOR_KEY: Final = "enflame.com/gcu-assigned-minor"
SIZE_KEY: Final = "enflame.com/gcu-request-size"
CONTAINERS_KEY: Final = "assigned-containers"
_ALL: Final = 100
_MIB_PER_GB: Final = 1024


@dataclass(frozen=True, slots=True, order=True)
class Profile:
    """A part of a device; the smallest compares least."""

    size: int
    memory_gb: int
    name: str
    id: str
    cores: int


class DrsWalk(Walk):
    """One container's request of a profile."""

    _profile: Profile | None = None

    def fit(self, usages: Sequence[DeviceUsage]) -> list[Pick] | Refused:
        """Return a device for the profile that the request means on this node."""
        self._profile = self._meant(profiles(usages))
        if self._profile is None:
            return Refused(Tally({str(Reason.MODE): 1}), len(usages))
        return super().fit(usages)

    def _meant(self, offered: Sequence[Profile]) -> Profile | None:
        number, cores = self.request.memory_mib or 0, self.request.cores
        vendor = self.scene.vendor
        if vendor and self.says(vendor.count_name):
            return next((each for each in offered if each.size == number), None)
        if offered and number > 2 * offered[-1].memory_gb:
            number = -(-number // _MIB_PER_GB)
        return next(
            (each for each in offered if each.memory_gb >= number and each.cores >= cores), None
        )

    def sizes(self, usage: DeviceUsage) -> tuple[int, int]:
        """Return the MiB and percent of the profile."""
        del usage
        profile = self._profile
        return (profile.memory_gb * _MIB_PER_GB, profile.cores) if profile else (0, 0)

    def lacks(self, usage: DeviceUsage, picks: list[Pick]) -> Reason | None:
        """Return what a device has too little of."""
        memory_mib, cores = self.sizes(usage)
        device = usage.device
        if self.scene.room is not ENDLESS and not self.has_room(usage, picks, memory_mib, cores):
            return Reason.QUOTA
        if device.memory_mib - usage.used_mib < memory_mib:
            return Reason.TOO_LITTLE_MEMORY
        if 0 < device.cores < usage.used_cores + cores:
            return Reason.TOO_FEW_CORES
        return None

    def pick(self, usage: DeviceUsage, picks: list[Pick]) -> Pick:
        """Take a device, remembering the profile."""
        found = super().pick(usage, picks)
        found.note = self._profile
        return found

    @classmethod
    def annotations(cls, scene: Scene) -> Mapping[str, str]:
        """Return each container's profile, and of the first its device."""
        told = {
            request.container.name: (picks[0], picks[0].note)
            for request, picks in zip(scene.ask.valid.requests, scene.taken, strict=True)
            if picks
        }
        first, profile = next(iter(told.values()))
        custom = first.usage.device.custom
        index = str(custom.get(INDEX, first.usage.device.index))
        return {
            ASSIGNED_KEY: "false",
            TIME_KEY: str(scene.clock_ns()),
            INDEX_KEY: index,
            ID_KEY: index,
            MINOR_KEY: str(custom.get(MINOR, index)),
            SIZE_KEY: str(profile.size),
            CONTAINERS_KEY: gojson.written(
                {name: _assigned(each) for name, (_, each) in sorted(told.items())}
            ),
        }


class GcuWalk(Walk):
    """One container's request of whole cards."""

    def excluded(self, usage: DeviceUsage) -> Reason | None:
        """Return why a card is not for the pod: somebody has it."""
        return Reason.EXCLUSIVE if usage.used_slots > 0 else super().excluded(usage)


def profiles(usages: Sequence[DeviceUsage]) -> list[Profile]:
    """Return the profiles that devices offer, smallest first."""
    offered = {name: (id_, size) for usage in usages for name, id_, size in _offered(usage)}
    told = [usage.device.custom.get(MAX_SLICE) for usage in usages]
    largest = max((each for each in told if isinstance(each, int)), default=0)
    largest = (
        largest if largest > 0 else max((size for _, (size, _) in offered.values()), default=0)
    )
    return sorted(
        Profile(size, memory_gb, name, id_, -(-size * _ALL // largest))
        for name, (id_, (size, memory_gb)) in offered.items()
    )


def _offered(usage: DeviceUsage) -> Iterator[tuple[str, str, tuple[int, int]]]:
    said = usage.device.custom.get(PROFILES)
    for name, id_ in said.items() if isinstance(said, Mapping) else ():
        size = profile_size(name)
        if size:
            yield name, str(id_), size


def _assigned(profile: Profile) -> dict[str, Any]:
    return {
        "allocated": False,
        "request": profile.size,
        "profileID": profile.id,
        "profileName": profile.name,
    }
