"""Which GPUs are linked best, from the scores of pairs that a node registers.

HAMi v2.10 (`pkg/device/nvidia/device.go`): one GPU is taken where it is missed least, several
where their pairs score most; the first found wins. HAMi tries every combination of whatever
fits, which for many candidates takes hours; here those beyond the first 16 are left out.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from hami import nodenotes
from hami.nodenotes import PairScores
from hami.reading import Undecodable

_CANDIDATES: Final = 16


@lru_cache(maxsize=64)
def pair_scores(text: str) -> PairScores:
    """Return what a node registers of its pairs; nothing where it cannot be read."""
    found = nodenotes.decode_scores(text)
    return {} if isinstance(found, Undecodable) else found


def least_linked(uuids: Sequence[str], scores: PairScores) -> int:
    """Return the index of the GPU whose links to the others score least."""

    def total(index: int) -> int:
        own = scores.get(uuids[index], {})
        return sum(own.get(other, 0) for other in uuids if other != uuids[index])

    return min(range(len(uuids)), key=total)


def best_linked(uuids: Sequence[str], count: int, scores: PairScores) -> tuple[int, ...]:
    """Return the indices of *count* GPUs whose pairs score most."""
    uuids = uuids[: max(_CANDIDATES, count)]
    pairs = [[scores.get(one, {}).get(two, 0) for two in uuids] for one in uuids]
    highest = max((score for row in pairs for score in row), default=0)
    all_links = count * (count - 1) // 2
    best: tuple[int, ...] = ()
    best_total = -1

    def extend(chosen: tuple[int, ...], total: int) -> None:
        nonlocal best, best_total
        known = len(chosen)
        missing = count - known
        if not missing:
            if total > best_total or not best:
                best, best_total = chosen, total
            return
        if best and total + highest * (all_links - known * (known - 1) // 2) <= best_total:
            return
        start = chosen[-1] + 1 if chosen else 0
        for index in range(start, len(uuids) - missing + 1):
            extend((*chosen, index), total + sum(pairs[one][index] for one in chosen))

    extend((), 0)
    return best
