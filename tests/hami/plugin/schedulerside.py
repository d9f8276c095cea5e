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
    text = annotations["hami.io/node-nvidia-register"]
    assert text.endswith(":")
    cards = []
    for segment in text[:-1].split(":"):
        uuid, count, memory, cores, model, numa, health, index, mode = segment.split(",")
        assert health in {"true", "false"}
        numbers = int(count), int(memory), int(cores)
        cards.append(Card(uuid, *numbers, model, int(numa), health == "true", int(index), mode))
    return cards
