"""HAMi's metrics of devices, pods and quotas, from the very objects by which pods are placed.

Names, labels and the constant `zone` are HAMi's (v2.10: `cmd/scheduler/metrics.go`). All samples of
a name must stand together, and a big cluster has hundreds of thousands: they are written in pieces,
between which decisions are made.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final, TypeVar

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from extender.metrics import Metrics
from extender.model import DeviceUsage, NodeUsage
from extender.parts import State
from hami.devices import PodDevice

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_MIB: Final = 1 << 20
_PIECE: Final = 400
"""Lines at a time; well below a millisecond."""
_REST_S: Final = 0.0005
"""Between two pieces, so that most questions find nothing under way; a scrape may take seconds."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_COMPUTE_UNITS: Final = "AMD"
"""The vendor whose cores are units and not percent."""

Labels = tuple[tuple[str, str | int], ...]
Sample = tuple[Labels, float]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _OfDevice:
    name: str
    help: str
    labels: tuple[str, ...]
    """Of `cores` and `memory_limit`; after the index as in HAMi."""
    value: Callable[[DeviceUsage], float | None]


def _core_limit(usage: DeviceUsage) -> float:
    device = usage.device
    return 100 if device.word == _COMPUTE_UNITS else device.cores


def _core_used(usage: DeviceUsage) -> float:
    device = usage.device
    if device.word != _COMPUTE_UNITS:
        return usage.used_cores
    return -(-usage.used_cores * 100 // device.cores) if device.cores > 0 else 0


def _memory_ratio(usage: DeviceUsage) -> float | None:
    total_mib = usage.device.memory_mib
    return usage.used_mib / total_mib if total_mib > 0 else None


_DEVICE_FAMILIES: Final = (
    _OfDevice(
        "hami_gpu_memory_limit_bytes",
        "Memory of a device.",
        (),
        lambda usage: usage.device.memory_mib * _MIB,
    ),
    _OfDevice("hami_gpu_core_limit_ratio", "Cores of a device.", (), _core_limit),
    _OfDevice(
        "hami_gpu_memory_allocated_bytes",
        "Memory of a device that is given to pods.",
        ("device_cores",),
        lambda usage: usage.used_mib * _MIB,
    ),
    _OfDevice(
        "hami_gpu_shared_count",
        "Containers that share a device.",
        (),
        lambda usage: usage.used_slots,
    ),
    _OfDevice("hami_gpu_core_allocated_ratio", "Cores of a device given to pods.", (), _core_used),
    _OfDevice(
        "hami_node_gpu_overview",
        "Memory of a device that is given to pods, with its sizes.",
        ("device_cores", "device_memory_limit"),
        lambda usage: usage.used_mib * _MIB,
    ),
    _OfDevice(
        "hami_node_gpu_memory_allocated_ratio",
        "Part of a device's memory that is given to pods.",
        (),
        _memory_ratio,
    ),
)

_POD_FAMILIES: Final[tuple[tuple[str, str, Callable[[PodDevice], int]], ...]] = (
    (
        "hami_vgpu_memory_allocated_bytes",
        "Memory of a device that a pod was given.",
        lambda device: device.memory_mib * _MIB,
    ),
    (
        "hami_vgpu_core_allocated_ratio",
        "Cores of a device that a pod was given.",
        lambda device: device.cores,
    ),
)


async def render(state: State, metrics: Metrics) -> AsyncIterator[bytes]:
    """Yield the text of all metrics; decisions may be made between two pieces."""
    nodes = tuple(state.usage())
    await asyncio.sleep(0)
    yield generate_latest(metrics.registry)
    await asyncio.sleep(0)
    rows = await _rows(nodes)
    for family in _DEVICE_FAMILIES:
        async for piece in _written(family.name, family.help, _of_devices(family, rows)):
            yield piece
    del rows
    for name, help_, samples in (
        ("hami_node_gpu_mig_instance_info", "An instance that was made.", _instances(nodes)),
        ("hami_resource_quota_used", "What a quota counts.", _quotas_used(state)),
        ("hami_resource_quota_limit", "What a quota allows.", _quota_limits(state)),
    ):
        async for piece in _written(name, help_, _of_samples(name, samples)):
            yield piece
    for name, help_, value in _POD_FAMILIES:
        async for piece in _written(name, help_, _of_pods(name, value, state)):
            yield piece


async def _written(name: str, help_: str, pieces: Iterable[str]) -> AsyncIterator[bytes]:
    yield f"# HELP {name} {help_}\n# TYPE {name} gauge\n".encode()
    for piece in pieces:
        yield piece.encode()
        await asyncio.sleep(_REST_S)


def _of_samples(name: str, samples: Iterable[Sample]) -> Iterator[str]:
    for some in _portions(samples):
        yield "".join([_line(name, labels, value) for labels, value in some])


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join([f'{key}="{_escaped(text)}"' for key, text in labels])
    return f'{name}{{{shown},zone="vGPU"}} {value}\n'


def _portions(items: Iterable[T], count: int = _PIECE) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(islice(left, count)):
        yield some


def _escaped(text: str | int) -> str:
    return str(text).translate(_ESCAPES) if type(text) is str else str(text)


_often: Final = lru_cache(maxsize=1024)(_escaped)
"""For texts that stand in many lines."""


class _Row(msgspec.Struct, gc=False):
    """A device and the labels that it has in all families, written once."""

    usage: DeviceUsage
    first: str
    last: str


async def _rows(nodes: Iterable[NodeUsage]) -> list[_Row]:
    rows: list[_Row] = []
    for some in _portions(_devices(nodes)):
        rows += [_row(node, usage) for node, usage in some]
        await asyncio.sleep(_REST_S)
    return rows


def _row(node: str, usage: DeviceUsage) -> _Row:
    device = usage.device
    first = (
        f'node="{_often(node)}",device_uuid="{_escaped(device.uuid)}",device_index="{device.index}"'
    )
    return _Row(usage, first, _last(device.type))


@lru_cache(maxsize=1024)
def _last(kind: str) -> str:
    return f'device_type="{_escaped(kind)}",zone="vGPU"'


def _of_devices(family: _OfDevice, rows: Sequence[_Row]) -> Iterator[str]:
    name, value_of, more = family.name, family.value, family.labels
    for start in range(0, len(rows), _PIECE):
        yield "".join(
            [
                f"{name}{{{row.first},{_sizes(row.usage, more)}{row.last}}} {value}\n"
                for row in rows[start : start + _PIECE]
                if (value := value_of(row.usage)) is not None
            ]
        )


def _sizes(usage: DeviceUsage, labels: tuple[str, ...]) -> str:
    if not labels:
        return ""
    sizes = {"device_cores": usage.device.cores, "device_memory_limit": usage.device.memory_mib}
    return "".join([f'{label}="{sizes[label]}",' for label in labels])


def _of_pods(name: str, value_of: Callable[[PodDevice], int], state: State) -> Iterator[str]:
    for some in _portions(state.holdings(), _PIECE // 2):
        yield "".join(
            [
                f'{name}{{namespace="{_often(each.namespace)}",node="{_often(each.node)}",'
                f'pod="{_escaped(each.name)}",container_index="0",'
                f'device_uuid="{_escaped(each.device.uuid)}",zone="vGPU"}} '
                f"{value_of(each.device)}\n"
                for each in some
            ]
        )


def _devices(nodes: Iterable[NodeUsage]) -> Iterator[tuple[str, DeviceUsage]]:
    for node in nodes:
        for devices in tuple(node.devices.values()):
            for usage in tuple(devices):
                yield node.name, usage


def _instances(nodes: Iterable[NodeUsage]) -> Iterator[Sample]:
    for node, usage in _devices(nodes):
        for each in usage.mig:
            if each.mig_uuid is not None:
                yield (
                    (
                        ("node", node),
                        ("device_uuid", usage.device.uuid),
                        ("device_index", usage.device.index),
                        ("mig_uuid", each.mig_uuid),
                        ("profile", each.profile),
                        ("gpu_instance_id", _id(each.gpu_instance_id)),
                        ("compute_instance_id", _id(each.compute_instance_id)),
                        ("placement_start", each.placement.start),
                        ("placement_size", each.placement.size),
                    ),
                    1,
                )


def _id(number: int | None) -> str | int:
    return "" if number is None else number


def _quotas_used(state: State) -> Iterator[Sample]:
    for each in state.quotas():
        limit = 0 if each.limit is None else each.limit
        labels: Labels = (
            ("namespace", each.namespace),
            ("quota_name", each.name),
            ("limit", limit),
        )
        yield labels, each.used


def _quota_limits(state: State) -> Iterator[Sample]:
    for each in state.quotas():
        if each.limit is not None:
            yield (("namespace", each.namespace), ("quota_name", each.name)), each.limit
