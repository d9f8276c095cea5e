"""From ResourceSlices to the few numbers that a translation needs.

Of a pool only the slices of its newest generation count. While not all of these are there, an
update is under way and the older ones stand for what is still to come: a card size that was
forgotten for a moment would be missing from a claim for as long as its pod lives.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gpu.names import (
    ATTRIBUTE_FILL_LEVEL,
    CAPACITY_MEMORY,
    CAPACITY_SHARES,
    MODE_EXCLUSIVE,
    MODE_MIG,
    MODE_SHARED,
)
from kube.objects import JsonObject
from kube.quantity import QuantityError, parse
from webhook.facts import ClusterFacts
from webhook.sharerequest import MEMORY_MAX_MIB, SHARES_MAX

_MIB: Final = 1 << 20
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)", re.ASCII)
_DISTINCT_SINCE: Final = (1, 36)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDevice:
    """What is remembered of one device."""

    name: str
    mode: str
    memory_mib: int | None
    shares: int | None
    model: str
    has_fill_level: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedSlice:
    """What is remembered of one ResourceSlice."""

    pool: str
    generation: int
    slice_count: int
    devices: tuple[OfferedDevice, ...]


def read_slice(item: JsonObject) -> OfferedSlice:
    """Return what is needed of *item*; a device that cannot be read is left out."""
    spec = item["spec"]
    pool = spec["pool"]
    return OfferedSlice(
        pool=str(pool["name"]),
        generation=int(pool.get("generation") or 0),
        slice_count=int(pool.get("resourceSliceCount") or 1),
        devices=tuple(_devices(spec.get("devices"))),
    )


def counts_are_distinct(server_version: str) -> bool:
    """Tell whether a server gives different devices for `count: 2`, by its version."""
    found = _VERSION.match(server_version)
    return found is not None and (int(found[1]), int(found[2])) >= _DISTINCT_SINCE


def facts_of(slices: Iterable[OfferedSlice], *, distinct: bool) -> ClusterFacts:
    """Return the facts that *slices* tell."""
    devices = [device for _, device in current_devices(slices)]
    gpus = [device for device in devices if device.mode in {MODE_SHARED, MODE_EXCLUSIVE}]
    return ClusterFacts(
        gpus_by_memory_mib=_count(device.memory_mib for device in gpus),
        gpus_by_shares=_count(device.shares for device in gpus if device.mode == MODE_SHARED),
        mig_by_memory_mib=_count(
            device.memory_mib for device in devices if device.mode == MODE_MIG
        ),
        models=frozenset(device.model for device in devices if device.model),
        fill_levels=any(device.has_fill_level for device in gpus),
        counts_are_distinct=distinct,
    )


def current_devices(slices: Iterable[OfferedSlice]) -> Iterator[tuple[str, OfferedDevice]]:
    """Yield pool and device of all that count, each once."""
    pools: dict[str, list[OfferedSlice]] = {}
    for each in slices:
        pools.setdefault(each.pool, []).append(each)
    for pool, parts in pools.items():
        found: dict[str, OfferedDevice] = {}
        for part in _current(parts):
            for device in part.devices:
                found.setdefault(device.name, device)
        yield from ((pool, device) for device in found.values())


def _current(parts: list[OfferedSlice]) -> list[OfferedSlice]:
    newest = max(part.generation for part in parts)
    current = [part for part in parts if part.generation == newest]
    if len(current) >= current[0].slice_count:
        return current
    return sorted(parts, key=lambda part: part.generation, reverse=True)


def _count(values: Iterable[int | None]) -> dict[int, int]:
    return dict(sorted(Counter(value for value in values if value).items()))


def _devices(entries: Any) -> Iterator[OfferedDevice]:
    for entry in entries or ():
        try:
            attributes, capacity = entry.get("attributes") or {}, entry.get("capacity") or {}
            memory = _whole(capacity, CAPACITY_MEMORY)
            yield OfferedDevice(
                name=str(entry["name"]),
                mode=sys.intern(_text(attributes, "mode")),
                memory_mib=_bounded(memory and memory // _MIB, MEMORY_MAX_MIB),
                shares=_bounded(_whole(capacity, CAPACITY_SHARES), SHARES_MAX),
                model=sys.intern(_text(attributes, "productName")),
                has_fill_level=ATTRIBUTE_FILL_LEVEL in attributes,
            )
        except (KeyError, TypeError, AttributeError, QuantityError):
            continue


def _bounded(number: int | None, most: int) -> int | None:
    """Return *number* if a claim can name it: one that cannot be would spoil all claims."""
    return number if number is not None and 0 < number <= most else None


def _text(attributes: Any, name: str) -> str:
    value = attributes.get(name)
    return str(value["string"]) if value is not None else ""


def _whole(capacity: Any, name: str) -> int | None:
    value = capacity.get(name)
    return parse(value["value"]).value() if value is not None else None
