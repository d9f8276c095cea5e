"""In which order devices are looked at under the policies of HAMi.

As in HAMi v2.10 (`pkg/scheduler/policy/gpu_policy.go`) the least wanted device stands first. Where
HAMi leaves the order of equal devices open, it is by NUMA node, then index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from extender.model import DeviceUsage
from hami import userkeys

_SCORE, _USED, _NUMA = 0, 1, 2
_KEYS: Final = {"binpack": (_SCORE, 1), "spread": (_SCORE, -1), "numa": (_NUMA, 1)}


@dataclass(frozen=True, slots=True)
class DevicePolicy:
    """A policy, resolved: what devices are sorted by, and what restricts the choice."""

    keys: tuple[tuple[int, int], ...]
    """Columns of score, use and NUMA node, each with its direction."""
    mutex: bool
    topology_aware: bool

    def worst_first(
        self, usages: Sequence[DeviceUsage], scores: Sequence[float]
    ) -> list[DeviceUsage]:
        """Return *usages* in order; devices are taken from the end."""
        keys = self.keys
        rows = []
        for usage, score in zip(usages, scores, strict=True):
            columns = (score, usage.used_slots, usage.device.numa)
            key = [columns[column] * direction for column, direction in keys]
            key.append(usage.device.index)
            rows.append((key, usage))
        rows.sort(key=_key)
        return [usage for _, usage in rows]


def _key(row: tuple[list[float], DeviceUsage]) -> list[float]:
    return row[0]


def policy_text(annotations: Mapping[str, str], default: str) -> str:
    """Return the policy in force, as written."""
    return annotations.get(userkeys.GPU_POLICY, "").strip() or default


@lru_cache(maxsize=256)
def resolved(text: str, *, numa_bind: bool) -> DevicePolicy:
    """Return what a policy or a chain of them means."""
    words = [word.strip() for word in text.split(",")]
    return DevicePolicy(
        keys=_keys(text, words, numa_bind=numa_bind),
        mutex="mutex" in words,
        topology_aware="topology-aware" in words,
    )


def _keys(text: str, words: list[str], *, numa_bind: bool) -> tuple[tuple[int, int], ...]:
    if "," in text or text == "numa":
        return _chain(words, numa_bind=numa_bind)
    if text == "mutex":
        return (_USED, -1), (_NUMA, 1)
    if text == "binpack":
        return ((_NUMA, -1), (_SCORE, 1)) if numa_bind else ((_SCORE, 1), (_NUMA, 1))
    return ((_NUMA, 1), (_SCORE, -1)) if numa_bind else ((_SCORE, -1), (_NUMA, 1))


def _chain(words: list[str], *, numa_bind: bool) -> tuple[tuple[int, int], ...]:
    found = list(dict.fromkeys(word for word in words if word in _KEYS)) or ["spread"]
    if numa_bind:
        found = list(dict.fromkeys(("numa", *found)))
    return tuple(_KEYS[word] for word in found)
