"""Cards of which MIG instances are made on demand, as the scheduler has to know them.

Which profiles a model may have is said in `device-config.yaml`, by parts of the model's name; the
first entry that fits counts. Sizes and places are NVML's (HAMi v2.10: `migmgr.go` below
`pkg/device-plugin/nvidiadevice`).
"""

from collections.abc import Iterable, Iterator

from gpu.instances import InstanceProfile
from hami.deviceconfig import MigProfiles
from hami.devices import MigPlacement, MigProfile


def names(allowlist: Iterable[MigProfiles], model: str) -> tuple[str, ...]:
    """Return the names of the profiles that *model* may have."""
    entry = next((each for each in allowlist if any(part in model for part in each.models)), None)
    return tuple(entry.profiles) if entry else ()


def allowed(
    profiles: Iterable[InstanceProfile], allowlist: Iterable[MigProfiles], model: str
) -> tuple[tuple[str, InstanceProfile], ...]:
    """Return the profiles that *model* may have and has, with the names that they go by."""
    by_slices = {profile.slices: profile for profile in profiles}
    found = ((name, by_slices.get(name.partition(".")[0])) for name in names(allowlist, model))
    return tuple((name, profile) for name, profile in found if profile is not None)


def registered(profiles: Iterable[tuple[str, InstanceProfile]]) -> Iterator[MigProfile]:
    """Yield *profiles* in the form in which a node registers them."""
    known = tuple(profiles)
    most = max((profile.multiprocessors for _, profile in known), default=1) or 1
    for name, profile in known:
        yield MigProfile(
            name=name,
            memory_mib=profile.memory_mib,
            cores=-(-profile.multiprocessors * 100 // most),
            slice_count=profile.slice_count,
            placements=tuple(
                MigPlacement(start=start, size=size) for start, size in profile.placements
            ),
        )
