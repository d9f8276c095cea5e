"""Which MIG instance a request becomes, and where on its GPU it lies.

HAMi v2.10 (`pkg/device/nvidia/mig_topology.go`): the smallest profile that is large enough and has
room, with the profiles of one and three slices placed from the far end, so that larger ones still
fit before them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from hami.devices import MigPlacement, MigProfile

_FROM_FAR_END: Final = ("1g.", "3g.")


def select(
    profiles: Sequence[MigProfile], occupied: Sequence[MigPlacement], memory_mib: int
) -> tuple[MigProfile, MigPlacement] | None:
    """Return the profile and place for a request of *memory_mib*; `None` where none has room."""
    by_size = sorted(profiles, key=lambda each: (each.memory_mib, each.slice_count))
    for profile in by_size:
        if profile.memory_mib >= memory_mib:
            placement = _place(profile, occupied)
            if placement:
                return profile, placement
    return None


def _place(profile: MigProfile, occupied: Sequence[MigPlacement]) -> MigPlacement | None:
    backwards = profile.name.startswith(_FROM_FAR_END)
    placements = sorted(profile.placements, key=lambda each: each.start, reverse=backwards)
    return next((each for each in placements if is_free(each, occupied)), None)


def is_free(placement: MigPlacement, occupied: Iterable[MigPlacement]) -> bool:
    """Tell whether *placement* overlaps none of *occupied*."""
    end = placement.start + placement.size
    return not any(
        placement.start < other.start + other.size and other.start < end for other in occupied
    )
