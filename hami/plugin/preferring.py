"""Which ids kubelet should take: one of each GPU that was decided, as far as it has these to give.

Ids of one GPU are all alike to kubelet, and without being told it takes several of one GPU for a
container that was given several GPUs. An empty answer leaves the choice to it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hami.deviceids import physical_uuid

_NUMBER: Final = re.compile(r"([0-9]+)")


def preferred(
    available: Iterable[str], must_include: Sequence[str], size: int, decided: Sequence[str]
) -> tuple[str, ...]:
    """Return *size* ids: all of *must_include*, then one for each GPU of *decided*; else none.

    *must_include* are ids that an init container of the pod had; they cover their GPUs.
    """
    chosen = list(dict.fromkeys(must_include))
    covered = {physical_uuid(each) for each in chosen}
    free = dict[str, str]()
    for device_id in sorted(set(available) - set(chosen), key=_natural):
        free.setdefault(physical_uuid(device_id), device_id)
    for uuid in decided:
        if len(chosen) < size and uuid not in covered and uuid in free:
            chosen.append(free[uuid])
    return tuple(chosen) if len(chosen) == size else ()


def _natural(device_id: str) -> list[str | tuple[int, str]]:
    """Sort `-2` before `-10`, so that the answer is always the same."""
    return [(len(part), part) if part.isdecimal() else part for part in _NUMBER.split(device_id)]
