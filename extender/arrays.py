"""The NVIDIA GPUs of all nodes as columns of numbers, so that one question reaches all at once.

A column is a node and a row one of its GPUs, which keeps each question in a few passes over small
arrays; there are as many rows as the largest node has GPUs. A column is filled again when its node
has changed and somebody asks. What a number cannot say (instances, NUMA nodes, links) is left to
the exact decision: columns only tell which nodes are worth it.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt

from extender.accounting import MIG_MODE, is_closed
from extender.fitting.scoring import node_score, node_sums
from extender.fitting.walk import cordoned
from extender.model import DeviceUsage, NodeUsage
from hami.requests import NVIDIA

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

ABSENT: Final = 0
USABLE: Final = 1
SICK: Final = 2
CORDONED: Final = 3
_MAX: Final = 2**31 - 1
_FIRST_WIDTH: Final = 8
_FIRST_LENGTH: Final = 64
_ALL_CORES: Final = 100


class Columns:
    """One column for each node that has GPUs and is open for new pods."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """By column; empty where the column is free."""
        self.usages: list[NodeUsage | None] = []
        self.uuids: list[tuple[str, ...]] = []
        """Of the GPUs of each column."""
        self.kinds: list[tuple[str, str]] = []
        """Type and mode of GPUs by the number in `kind`."""
        self._column_of: dict[str, int] = {}
        self._free: list[int] = []
        self._kind_of: dict[tuple[str, str], int] = {}
        self._rows = _Rows(_FIRST_WIDTH, _FIRST_LENGTH)
        self._cut: _Rows | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def rows(self) -> "_Rows":
        """Return the arrays, cut to the columns in use."""
        if self._cut is None:
            self._cut = self._rows.cut(len(self.names))
        return self._cut

    def column(self, name: str) -> int | None:
        """Return where a node stands."""
        return self._column_of.get(name)

    def usage(self, column: int) -> NodeUsage:
        """Return the node of a column; raises `LookupError` for a free one."""
        usage = self.usages[column]
        if usage is None:
            message = f"no node has column {column}"
            raise LookupError(message)
        return usage

    def columns(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return where each of *names* stands; -1 for what has no column."""
        found = map(self._column_of.get, names, repeat(-1))
        return np.fromiter(found, dtype=np.int64, count=len(names))

    def members(self, names: Sequence[str]) -> Flags:
        """Return which columns are those of *names*."""
        found = np.zeros(len(self.names) + 1, dtype=np.bool_)
        found[self.columns(names)] = True
        return found[:-1]

    def put(self, name: str, usage: NodeUsage | None) -> None:
        """Take a node as it is now; `None` or one without GPUs has no column."""
        devices = usage.devices.get(NVIDIA) if usage is not None else None
        if usage is None or not devices:
            self.drop(name)
            return
        column = self._column_of.get(name)
        if column is None:
            column = self._new_column(name)
        self.usages[column] = usage
        if len(devices) > self._rows.width:
            self._grow(len(devices), self._rows.length)
        self._fill(column, usage, devices)

    def drop(self, name: str) -> None:
        """Forget a node."""
        column = self._column_of.pop(name, None)
        if column is None:
            return
        self.names[column], self.usages[column], self.uuids[column] = "", None, ()
        self._rows.clear(column)
        self._free.append(column)

    def _new_column(self, name: str) -> int:
        if self._free:
            column = self._free.pop()
            self.names[column] = name
        else:
            column = len(self.names)
            self.names.append(name)
            self.usages.append(None)
            self.uuids.append(())
            self._cut = None
            if column >= self._rows.length:
                self._grow(self._rows.width, 2 * self._rows.length)
        self._column_of[name] = column
        return column

    def _grow(self, width: int, length: int) -> None:
        self._rows, self._cut = self._rows.grown(width, length), None

    def _fill(self, column: int, usage: NodeUsage, devices: Sequence[DeviceUsage]) -> None:
        rows = self._rows
        unwanted = cordoned(usage.annotations)
        states = [_state(each, unwanted) for each in devices]
        self.uuids[column] = tuple(each.device.uuid for each in devices)
        rows.clear(column)
        for row, (each, state) in enumerate(zip(devices, states, strict=True)):
            device = each.device
            free_mib = device.memory_mib - each.used_mib if device.memory_mib > 0 else -1
            has_slot = device.count > each.used_slots
            free_cores = device.cores - each.used_cores
            is_idle = each.used_slots <= 0
            rows.state[row, column] = state
            rows.numa[row, column] = device.numa
            rows.kind[row, column] = self._kind(device.type, device.mode)
            rows.total_mib[row, column] = _bounded(device.memory_mib)
            rows.free_mib[row, column] = free_mib = _bounded(free_mib)
            rows.usable_mib[row, column] = free_mib if state == USABLE and has_slot else -1
            rows.free_cores[row, column] = _bounded(free_cores)
            rows.has_slot[row, column] = has_slot
            rows.is_idle[row, column] = is_idle
            rows.takes_whole[row, column] = is_idle or device.cores != _ALL_CORES
            rows.takes_none[row, column] = not device.cores or free_cores != 0
        rows.count[column] = len(devices)
        rows.has_instances[column] = any(each.device.mode == MIG_MODE for each in devices)
        rows.is_open[column] = usage.blocked is None
        rows.score[column] = node_score(*node_sums(usage.devices.values()))

    def _kind(self, model: str, mode: str) -> int:
        pair = (model, mode)
        found = self._kind_of.get(pair)
        if found is None:
            found = self._kind_of[pair] = len(self.kinds)
            self.kinds.append(pair)
        return found


_DEVICES: Final[dict[str, type[np.generic]]] = {
    "state": np.int8,
    "kind": np.int32,
    "numa": np.int64,
    "total_mib": np.int32,
    "free_mib": np.int32,
    "usable_mib": np.int32,
    "free_cores": np.int32,
    "has_slot": np.bool_,
    "is_idle": np.bool_,
    "takes_whole": np.bool_,
    "takes_none": np.bool_,
}
_NODES: Final[dict[str, type[np.generic]]] = {
    "count": np.int32,
    "has_instances": np.bool_,
    "is_open": np.bool_,
    "score": np.float64,
}


class _Rows:
    """The arrays: of GPUs (rows by columns), and of nodes."""

    state: npt.NDArray[np.int8]
    kind: Ints
    numa: npt.NDArray[np.int64]
    total_mib: Ints
    free_mib: Ints
    """-1 for a GPU without memory, which takes nothing."""
    usable_mib: Ints
    """The same, and -1 where the GPU takes no pod whatever its size is."""
    free_cores: Ints
    has_slot: Flags
    is_idle: Flags
    takes_whole: Flags
    """Takes a pod that asks for all cores, if it has these."""
    takes_none: Flags
    """Takes a pod that asks for no cores."""
    count: Ints
    has_instances: Flags
    is_open: Flags
    score: Floats

    def __init__(self, width: int, length: int) -> None:
        self.width, self.length = width, length
        for name, kind in _DEVICES.items():
            setattr(self, name, np.zeros((width, length), dtype=kind))
        for name, kind in _NODES.items():
            setattr(self, name, np.zeros(length, dtype=kind))
        self.usable_mib[:] = -1

    def clear(self, column: int) -> None:
        """Make a column that of no node."""
        self.state[:, column] = ABSENT
        self.usable_mib[:, column] = -1
        self.is_open[column] = False

    def grown(self, width: int, length: int) -> "_Rows":
        """Return larger arrays with the same in them."""
        made = _Rows(width, length)
        for name in _DEVICES:
            getattr(made, name)[: self.width, : self.length] = getattr(self, name)
        for name in _NODES:
            getattr(made, name)[: self.length] = getattr(self, name)
        return made

    def cut(self, length: int) -> "_Rows":
        """Return views of the first *length* columns."""
        made = object.__new__(_Rows)
        made.width, made.length = self.width, length
        for name in _DEVICES:
            setattr(made, name, getattr(self, name)[:, :length])
        for name in _NODES:
            setattr(made, name, getattr(self, name)[:length])
        return made


def _state(usage: DeviceUsage, unwanted: frozenset[str]) -> int:
    if not usage.device.healthy or is_closed(usage):
        return SICK
    return CORDONED if usage.device.uuid in unwanted else USABLE


def _bounded(number: int) -> int:
    """Return what compares with requests, which are from 0 to 2**31 - 1, as *number* does."""
    return max(-1, min(number, _MAX))
