"""Why no node takes a pod, for thousands of nodes in a millisecond or two.

GPUs are counted under the first check that they fail, in the order of the exact decision, for all
nodes at once. Most nodes then have one of few combinations of counts, and each has its text once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from extender import arrays
from extender.arrays import Flags
from extender.choosing_columns import Candidates
from extender.choosing_question import Need
from extender.fitting.reasons import Reason
from extender.model import Misfit

_ORDER: Final = (
    Reason.NOT_HEALTHY,
    Reason.CORDONED,
    Reason.TYPE_MISMATCH,
    Reason.UUID_MISMATCH,
    Reason.SLOTS_EXHAUSTED,
    Reason.EXCLUSIVE,
    Reason.QUOTA,
    Reason.TOO_LITTLE_MEMORY,
    Reason.TOO_FEW_CORES,
    Reason.CORES_EXHAUSTED,
    Reason.TOO_FEW_FITTING,
)
_BITS: Final = 5
"""Of a count; with the number of GPUs twelve of them make a code of 60."""
MOST_DEVICES: Final = 2**_BITS - 1
_TEXTS_KEPT: Final = 20_000
_NODE_WORDS: Final = frozenset(Reason)

_SHIFTS: Final = {reason: _BITS * place for place, reason in enumerate(_ORDER, 1)}
_WEIGHTS: Final = {reason: np.int64(1 << shift) for reason, shift in _SHIFTS.items()}
_TOO_FEW: Final = -1
_ALL_CORES: Final = 100

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """A text and the tokens in it; many nodes share one."""

    text: str
    tokens: tuple[str, ...]


CLOSED: Final = "node closed"
"""Stands for all reasons that name a pod or an annotation."""


def said(misfit: Misfit) -> Said:
    """Return the text of a refusal that was reached exactly."""
    known = {token if token in _NODE_WORDS else CLOSED for token in misfit.reasons}
    return Said(str(misfit), tuple(sorted(known)))


def of_node(text: str) -> Said:
    """Return a reason that is about the node as a whole."""
    return Said(text, (text if text in _NODE_WORDS else CLOSED,))


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Why each node does not take a pod."""

    names: Sequence[str]
    which: Sequence[int]
    """Of what is said, for each name."""
    said: Sequence[Said]

    def texts(self) -> dict[str, str]:
        """Return the text for each node."""
        texts = [each.text for each in self.said]
        return dict(zip(self.names, map(texts.__getitem__, self.which), strict=True))

    def tokens(self) -> dict[str, int]:
        """Return how many nodes gave which of the tokens."""
        found: dict[str, int] = {}
        counts = np.bincount(np.asarray(self.which, dtype=np.int64), minlength=len(self.said))
        for each, count in zip(self.said, counts.tolist(), strict=True):
            for token in each.tokens if count else ():
                found[token] = found.get(token, 0) + count
        return found


class Texts:
    """The texts of combinations of counts, kept from one decision to the next."""

    def __init__(self) -> None:
        self._by_code: dict[int, Said] = {}

    def of(self, code: int) -> Said:
        """Return the text of a code."""
        if len(self._by_code) > _TEXTS_KEPT:
            self._by_code.clear()
        found = self._by_code.get(code)
        if found is None:
            found = self._by_code[code] = _said(code)
        return found


def codes_of(candidates: Candidates) -> Codes:
    """Return the counts of each column as one number, by the first container that cannot fit.

    Columns that may fit get a number, too, but no sensible one.
    """
    needs = candidates.question.needs
    found, fails = _codes(candidates, needs[0])
    for need in needs[1:]:
        codes, next_fails = _codes(candidates, need)
        found = np.where(fails, found, codes)
        fails |= next_fails
    return found


def _codes(candidates: Candidates, need: Need) -> tuple[Codes, Flags]:
    """Return the codes and which columns cannot fit *need*.

    Each GPU gets the number of its reason; a check that comes first overwrites those after it.
    """
    rows = candidates.rows
    weight = np.full(rows.state.shape, _WEIGHTS[Reason.TOO_FEW_FITTING])
    for reason, failing in reversed(tuple(_checks(candidates, need))):
        if failing is not None:
            np.copyto(weight, _WEIGHTS[reason], where=failing)
    np.copyto(weight, 0, where=rows.state == arrays.ABSENT)
    code: Codes = weight.sum(axis=0)
    hits = code >> _SHIFTS[Reason.TOO_FEW_FITTING]
    code += rows.count
    too_few: Flags = rows.count < need.count
    if candidates.question.takes_instances:
        too_few &= ~rows.has_instances
    code[too_few] = _TOO_FEW
    return code, too_few | (hits < need.count)


def _checks(candidates: Candidates, need: Need) -> Iterator[tuple[Reason, Flags | None]]:
    """Yield the GPUs that fail each check, in the order of the exact decision."""
    rows, question = candidates.rows, candidates.question
    yield Reason.NOT_HEALTHY, rows.state == arrays.SICK
    yield Reason.CORDONED, rows.state == arrays.CORDONED
    yield Reason.TYPE_MISMATCH, None if candidates.kinds is None else ~candidates.kinds
    yield Reason.UUID_MISMATCH, None if candidates.uuids is None else ~candidates.uuids
    yield Reason.SLOTS_EXHAUSTED, ~rows.has_slot
    yield Reason.EXCLUSIVE, ~rows.is_idle if question.mutex else None
    yield Reason.TOO_LITTLE_MEMORY, rows.free_mib < 0
    within = candidates.within_quota(need)
    yield Reason.QUOTA, None if within is None else np.logical_not(within)
    yield Reason.TOO_LITTLE_MEMORY, rows.free_mib < candidates.memory_mib(need)
    yield Reason.TOO_FEW_CORES, rows.free_cores < need.cores
    yield Reason.EXCLUSIVE, ~rows.takes_whole if need.cores == _ALL_CORES else None
    yield Reason.CORES_EXHAUSTED, ~rows.takes_none if need.cores == 0 else None


def _said(code: int) -> Said:
    if code == _TOO_FEW:
        return of_node(Reason.TOO_FEW_DEVICES)
    counts = {reason: code >> shift & MOST_DEVICES for reason, shift in _SHIFTS.items()}
    reasons = {str(reason): count for reason, count in counts.items() if count}
    return said(Misfit(node="", reasons=reasons, devices=code & MOST_DEVICES))
