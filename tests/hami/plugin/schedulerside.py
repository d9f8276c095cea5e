"""What HAMi's schedulers make of a node's annotations, written from their format alone.

It shares nothing with `hami`, so that a mistake there is not made twice.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Card:
    """A card as a scheduler books on it."""

    uuid: str
    count: int
    memory_mib: int
    cores: int
    model: str
    numa: int
    healthy: bool
    index: int
    mode: str


_KEYS = ("id", "count", "devmem", "devcore", "type", "numa", "health", "index", "mode")
_ZERO: tuple[Any, ...] = ("", 0, 0, 0, "", 0, False, 0, "")


def new(annotations: Mapping[str, str]) -> list[Card]:
    """Return what a scheduler since v2.8 reads: JSON in which zeros are left out."""
    found = json.loads(annotations["hami.io/node-nvidia-register"])
    return [
        Card(*(each.get(key, zero) for key, zero in zip(_KEYS, _ZERO, strict=True)))
        for each in found
    ]


def old(annotations: Mapping[str, str]) -> list[Card]:
    """Return what a scheduler from v2.5 to v2.7 reads: nine fields, then a colon."""
    return [
        _card(fields, index=int(fields[7]), mode=fields[8]) for fields in _split(annotations, 9)
    ]


def oldest(annotations: Mapping[str, str]) -> list[Card]:
    """Return what a scheduler of v2.4 reads: seven fields, then a colon."""
    return [_card(fields, index=0, mode="hami-core") for fields in _split(annotations, 7)]


def _split(annotations: Mapping[str, str], count: int) -> list[list[str]]:
    text = annotations["hami.io/node-nvidia-register"]
    assert text.endswith(":")
    found = [segment.split(",") for segment in text[:-1].split(":")]
    assert all(len(fields) == count for fields in found)
    return found


def _card(fields: list[str], *, index: int, mode: str) -> Card:
    uuid, count, memory, cores, model, numa, health = fields[:7]
    assert health in {"true", "false"}
    return Card(
        uuid, int(count), int(memory), int(cores), model, int(numa), health == "true", index, mode
    )
