"""One line for each figure: what was measured, what is hoped for, what would be too little.

A benchmark never fails by its numbers, because machines differ and this one has other work too.
"""

import math
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is held against; *more_is_better* for rates, not for times and sizes."""

    goal: float
    floor: float
    more_is_better: bool = False

    def verdict(self, value: float) -> str:
        """Return `ok`, `floor` (the goal is missed) or `short` (the floor is, too)."""
        sign = -1 if self.more_is_better else 1
        if sign * value <= sign * self.goal:
            return "ok"
        return "floor" if sign * value <= sign * self.floor else "short"


def show(group: str, name: str, value: float, goal: Goal | None = None, note: str = "") -> None:
    """Print one figure."""
    parts = [group, name, text_of(value)]
    if goal is not None:
        parts += ["goal", text_of(goal.goal), "floor", text_of(goal.floor), goal.verdict(value)]
    if note:
        parts.append(f"({note})")
    print(*parts, flush=True)


def show_machine() -> None:
    """Print what else decides the figures: the load, the CPUs and how fast one of them computes."""
    load, _, _ = os.getloadavg()
    show("machine", "load", load, note=f"{os.cpu_count()} CPUs; above that others take part")
    took_ms = []
    for _ in range(5):
        began = time.perf_counter()
        sum(number * number for number in range(200_000))
        took_ms.append((time.perf_counter() - began) * 1000)
    show("machine", "calibration_ms", min(took_ms), note="200,000 squares")


def text_of(value: float) -> str:
    """Return *value* with three digits that mean something."""
    if value == 0 or float(value).is_integer():
        return str(int(value))
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the smallest of *values* that at least *percent* of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Sequence[float]) -> float:
    """Return the middle one of *values*, the lower of two."""
    return percentile(values, 50)
