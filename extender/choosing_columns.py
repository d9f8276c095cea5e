"""Which nodes are worth an exact look, and which is the best of them.

Nodes are looked at in the order of their score, best first, and the first that fits is the answer:
HAMi's score of a node for NVIDIA GPUs says how full it is before the pod comes, so it is known
beforehand. Whether a node is among those asked about is looked up only for nodes that may fit; the
names are decoded when too many of these turn out not to be.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final

import numpy as np

from extender.arrays import Columns, Flags, Ints
from extender.choosing_question import Need, Question
from extender.state.bounds import Room
from extender.wire import Names
from hami.requests import NVIDIA

_PATIENCE: Final = 8
_SHORT_BYTES: Final = 4096
_ALL_CORES: Final = 100
_MOST_NUMAS: Final = 16
"""More are no numbers of NUMA nodes, and not worth asking each."""


class Candidates:
    """The nodes that may fit one pod."""

    def __init__(self, columns: Columns, question: Question, room: Room) -> None:
        self.columns, self.question = columns, question
        self.rows = columns.rows
        self._left_mib, self._left_cores = room.left(NVIDIA)
        self.kinds = self._suitable_kinds()
        self.uuids = self._suitable_uuids()
        self.is_over_quota = self._is_over_quota()

    def mask(self) -> Flags:
        """Return the columns where every container may fit."""
        rows = self.rows
        found = rows.is_open.copy()
        for need in set(self.question.needs):
            found &= self._enough(need)
        if len(self.question.staying) > 1:
            found &= self._enough_together() | self.rows.has_instances
        return found

    def doubtful(self, mask: Flags) -> Flags:
        """Return the columns outside *mask* of which only an exact look tells why.

        Counting GPUs one by one tells nothing where some fit, but not together.
        """
        found = np.zeros_like(mask)
        if self.question.numa_bind or len(self.question.needs) > 1:
            for need in set(self.question.needs):
                found |= np.any(self.fitting(need), axis=0)
        found &= self.rows.is_open & ~mask
        return found

    def _enough_together(self) -> Flags:
        """Return the columns that hold as many of the smallest share as all containers take."""
        staying, rows = self.question.staying, self.rows
        each = np.where(rows.usable_mib >= 0, len(staying), 0)
        least_mib = min(need.memory_mib or 0 for need in staying)
        least_cores = min(need.cores for need in staying)
        if least_mib:
            np.minimum(each, rows.usable_mib // least_mib, out=each)
        if least_cores:
            np.minimum(each, rows.free_cores // least_cores, out=each)
        np.maximum(each, 0, out=each)
        together: Flags = each.sum(axis=0) >= sum(need.count for need in staying)
        return together

    def _enough(self, need: Need) -> Flags:
        fitting = self.fitting(need)
        if need.count == 1:
            found: Flags = np.any(fitting, axis=0)
            return found
        hits = fitting.sum(axis=0, dtype=np.int32)
        several: Flags = self._most_of_one_numa(fitting, hits) >= need.count
        if self.rows.has_instances.any():
            several |= self.rows.has_instances & (hits > 0)
        return several

    def _most_of_one_numa(self, fitting: Flags, hits: Ints) -> Ints:
        """Return how many GPUs go together at most."""
        if not self.question.numa_bind:
            return hits
        numas = np.unique(self.rows.numa[fitting])
        if numas.size > _MOST_NUMAS:
            return hits
        most = np.zeros_like(hits)
        for numa in numas:
            on_one = (fitting & (self.rows.numa == numa)).sum(axis=0, dtype=np.int32)
            np.maximum(most, on_one, out=most)
        return most

    def fitting(self, need: Need) -> Flags:
        """Return the GPUs that meet *need*, each by itself."""
        rows = self.rows
        found: Flags = rows.usable_mib >= self.memory_mib(need)
        found &= rows.free_cores >= need.cores
        if need.cores == 0:
            found &= rows.takes_none
        elif need.cores == _ALL_CORES:
            found &= rows.takes_whole
        if self.question.mutex:
            found &= rows.is_idle
        for restriction in (self.kinds, self.uuids, self.within_quota(need)):
            if restriction is not None:
                found &= restriction
        return found

    def memory_mib(self, need: Need) -> int | Ints:
        """Return what *need* takes of a GPU, or of each."""
        if need.memory_mib is not None:
            return need.memory_mib
        total_mib = self.rows.total_mib
        if need.memory_percent == 100:
            return total_mib
        return (total_mib.astype(np.int64) * need.memory_percent // 100).astype(np.int32)

    def within_quota(self, need: Need) -> Flags | bool | None:
        """Return the GPUs of which the quota leaves room for one; `None` without a quota."""
        if self._left_mib is None and self._left_cores is None:
            return None
        if self._left_cores is not None and need.cores > self._left_cores:
            return False
        if self._left_mib is None:
            return None
        within = np.asarray(self.memory_mib(need) <= self._left_mib)
        return bool(within) if within.ndim == 0 else within

    def _is_over_quota(self) -> bool:
        """Tell whether no node will do: even the least that the pod takes is too much."""
        question = self.question
        if self._left_mib is not None and question.least_mib > self._left_mib:
            return True
        # An instance is booked with the cores of its profile, not with those asked for.
        exact = self._left_cores is not None and not self.rows.has_instances.any()
        return exact and question.least_cores > (self._left_cores or 0)

    def _suitable_kinds(self) -> Flags | None:
        suits = [self.question.takes_kind(*kind) for kind in self.columns.kinds]
        return None if all(suits) else np.array(suits, dtype=np.bool_)[self.rows.kind]

    def _suitable_uuids(self) -> Flags | None:
        """Return the GPUs that the pod takes by their UUID."""
        if not self.question.has_uuids:
            return None
        use, nouse = self.question.uuids
        found = np.full(self.rows.state.shape, use is None)
        for column, uuids in enumerate(self.columns.uuids):
            for named, takes in ((use, True), (nouse, False)):
                if named and not named.isdisjoint(uuids):
                    rows = [row for row, uuid in enumerate(uuids) if uuid in named]
                    found[rows, column] = takes
        return found


def best_first(
    candidates: Candidates, mask: Flags, names: Names, *, spreads: bool
) -> Iterator[int]:
    """Yield the columns of *mask* that are among *names*; the best score first, then the lowest."""
    columns, score = candidates.columns, candidates.rows.score
    rank = np.where(mask, -score if spreads else score, -np.inf)
    is_member: Callable[[str], bool] = names.__contains__
    misses = 0
    if len(names.raw) < _SHORT_BYTES:
        misses = _PATIENCE
    while rank.size:
        if misses == _PATIENCE:
            rank[~columns.members(names.listed())] = -np.inf
            misses += 1
        column = int(rank.argmax())
        if rank[column] == -np.inf:
            return
        rank[column] = -np.inf
        if misses > _PATIENCE or is_member(columns.names[column]):
            yield column
        else:
            misses += 1


def signature(columns: Columns, column: int) -> Hashable:
    """Return all that decides whether NVIDIA GPUs of a node fit, but for their UUIDs.

    Nodes with the same are all unfit if one is, and a large cluster has many of them.
    """
    usage = columns.usages[column]
    devices = usage.devices[NVIDIA] if usage else ()
    return (
        columns.rows.state[:, column].tobytes(),
        *(
            (
                *(each.device.type, each.device.mode, each.device.count, each.device.memory_mib),
                *(each.device.cores, each.device.numa, each.device.index, each.used_slots),
                *(each.used_mib, each.used_cores, each.device.mig_profiles),
                *((instance.placement, instance.profile) for instance in each.mig),
            )
            for each in devices
        ),
    )
