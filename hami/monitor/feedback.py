"""Decides which containers wait for others, and whose core limit is lifted.

HAMi's rules (HAMi v2.10: cmd/vGPUmonitor/feedback.go), once for each look: a container that has
launched kernels lately is active on all its GPUs; who has a GPU on which one of higher priority is
active waits; the core limit holds for it, and for those of equal priority that are active on one
GPU, and is lifted for who is alone. The library obeys only where it limits cores itself, which is
from 1 to 99 percent: elsewhere nobody is told to wait, because nothing would come of it.

Two things are added. Newer libraries note a launch in the field that is made for it only while they
limit, and not once the limit is lifted, so the time of the last launch counts as well. And a region
without a living process is not active, whatever it says.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

Key = TypeVar("Key")

LAUNCHED: Final = 2
"""What the library stores with each launch under a core limit; it fades with each look."""
BLOCKED: Final = -1
_FREE: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A container, as far as this is about it."""

    devices: frozenset[str]
    priority: int
    """0 is high; who has less than that has no say."""
    recent_kernel: int
    limited: bool
    """Whether the library limits cores for it, so that it can be held back."""
    alive: bool
    launched_lately: bool = False
    """Whether the time of its last launch says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be stored for a container."""

    recent_kernel: int
    utilization_switch: int
    should_wait: bool
    """Whether one of higher priority is active beside it; it waits only if it is limited."""


def decide(tasks: Mapping[Key, Task]) -> dict[Key, Order]:
    """Return what is to be stored for each of *tasks* now."""
    faded = {key: _faded(task.recent_kernel) for key, task in tasks.items()}
    active: Counter[tuple[str, int]] = Counter()
    for key, task in tasks.items():
        # Who waits has tried to launch, and has not.
        launches = faded[key] > 0 or (faded[key] == _FREE and task.launched_lately)
        if task.alive and launches and task.priority >= 0:
            active.update((device, task.priority) for device in task.devices)
    return {key: _order(task, faded[key], active) for key, task in tasks.items()}


def _faded(recent_kernel: int) -> int:
    """Return what a look makes of the field; a container that writes more gains nothing."""
    return min(recent_kernel, LAUNCHED) - 1 if recent_kernel > 0 else recent_kernel


def _order(task: Task, faded: int, active: Mapping[tuple[str, int], int]) -> Order:
    should_wait = any(
        device in task.devices and priority < task.priority for device, priority in active
    )
    has_rivals = any(active.get((device, task.priority), 0) > 1 for device in task.devices)
    waits = should_wait and task.limited and task.alive
    return Order(
        recent_kernel=BLOCKED if waits else max(faded, _FREE),
        utilization_switch=int(should_wait or has_rivals),
        should_wait=should_wait,
    )
