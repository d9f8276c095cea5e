"""The simulated GPUs of a node: a GPU file and its board profiles made concrete.

The fake library and the fake driver tree both read these values, so that what NVML says, what
/proc says and which device nodes exist always agree.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from sim.boards import Board, MigProfile, MigTable, board
from sim.gpufile import GpuEntry, GpuFile, GpuFileError, Partition

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "gpuslice.io")
_BUSES = 0xE0


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """A GPU instance with one compute instance that fills it."""

    uuid: str
    profile: MigProfile
    start: int
    gpu_instance_id: int
    compute_instance_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimGpu:
    """One GPU as the simulated driver knows it."""

    uuid: str
    pci_bus_id: str
    minor: int
    name: str
    memory_mib: int | None
    memory_reserved_mib: int
    board: Board
    entry: GpuEntry
    mig: tuple[MigInstance, ...]
    bare: tuple[MigInstance, ...] = ()
    """GPU instances without a compute instance, which are no devices."""


def gpus(file: GpuFile) -> tuple[SimGpu, ...]:
    """Return the GPUs of *file* in the order of NVML's index, or raise `GpuFileError`."""
    entries = [entry for entry in file.gpus for _ in range(entry.count)]
    found = tuple(_gpu(file.node, index, entry) for index, entry in enumerate(entries))
    for field in ("uuid", "pci_bus_id", "minor"):
        seen = [getattr(gpu, field) for gpu in found]
        twice = next((value for value in seen if seen.count(value) > 1), None)
        if twice is not None:
            message = f"gpus: two GPUs have the {field} `{twice}`"
            raise GpuFileError(message)
    return found


def _gpu(node: str, index: int, entry: GpuEntry) -> SimGpu:
    model = board(entry.profile)
    identity = entry.uuid or f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"
    memory = model.memory
    return SimGpu(
        uuid=identity,
        pci_bus_id=entry.pci or f"{index // _BUSES:04x}:{1 + index % _BUSES:02x}:00.0",
        minor=index if entry.minor is None else entry.minor,
        name=entry.name or model.name,
        memory_mib=entry.memory_mib or (memory.total_mib if memory else None),
        memory_reserved_mib=memory.reserved_mib if memory else 0,
        board=model,
        entry=entry,
        mig=_partitions(identity, entry, model.mig),
    )


def _partitions(parent: str, entry: GpuEntry, table: MigTable | None) -> tuple[MigInstance, ...]:
    if table is None or not entry.mig:
        return ()
    wanted = [(_profile(table, part.profile), part) for part in entry.mig]
    wanted.sort(key=lambda each: -each[0].memory_slices)
    starts = next(_layouts(wanted, frozenset()), None)
    if starts is None:
        asked = ", ".join(part.profile for part in entry.mig)
        message = f"gpus: `{entry.profile}` has no room for the MIG devices {asked}"
        raise GpuFileError(message)
    return tuple(
        _instance(parent, table, profile, part, start)
        for (profile, part), start in zip(wanted, starts, strict=True)
    )


def _profile(table: MigTable, name: str) -> MigProfile:
    found = table.named(name)
    if found is None:
        raise KeyError(name)
    return found


def _layouts(
    wanted: list[tuple[MigProfile, Partition]], taken: frozenset[int]
) -> Iterator[tuple[int, ...]]:
    """Yield starts for all *wanted* that overlap neither each other nor *taken*."""
    if not wanted:
        yield ()
        return
    (profile, part), *rest = wanted
    same = sum(1 for other, _ in rest if other is profile)
    if same >= profile.instances:
        return
    for start in profile.starts:
        slices = frozenset(range(start, start + profile.memory_slices))
        if part.start in {None, start} and not slices & taken:
            for others in _layouts(rest, taken | slices):
                yield (start, *others)


def _instance(
    parent: str, table: MigTable, profile: MigProfile, part: Partition, start: int
) -> MigInstance:
    identity = uuid.uuid5(_NAMESPACE, f"{parent}/{profile.name}/{start}")
    return MigInstance(
        uuid=part.uuid or f"MIG-{identity}",
        profile=profile,
        start=start,
        gpu_instance_id=instance_id(table, profile, start),
    )


def instance_id(table: MigTable, profile: MigProfile, start: int) -> int:
    """Return the number of an instance: as of nodes of a binary tree over the memory slices."""
    level = table.memory_slices // profile.memory_slices
    return level - 1 + start // profile.memory_slices
