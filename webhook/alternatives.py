"""The alternatives of a request: kinds and sizes of devices, closeness, and how full they are.

The scheduler takes the first alternative that can be served, and of two nodes the one where an
earlier one can (kubernetes: dynamicresources.go, `computeScore`), so their order is a wish. There
are at most eight, all combinations counted: sizes come first, since without its own a GPU is lost
to the pod, then closeness, and then fill. What found no room is a warning, never silence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpu.names import (
    CAPACITY_CORES,
    CAPACITY_MEMORY,
    CAPACITY_SHARES,
    CLASS_MIG,
    CLASS_SHARE,
    CLASS_WHOLE,
)
from gpu.refusal import Refusal
from kube.quantity import whole
from webhook import cel
from webhook.sharerequest import ALTERNATIVES_MAX, Near, ShareRequest

MIXED_MAX: Final = 4
"""Up to so many GPUs may be of different sizes. Each is a request of its own then, and a search
that fails tries all their orders: with 8 of them some 10,000 on each node."""

CONSTRAINTS_MAX: Final = 32
"""Of one claim (resource/v1: `DeviceConstraintsMaxSize`); each names at most as many requests."""

_MIB: Final = 1 << 20
_NAMES: Final[Mapping[Near, str]] = {Near.PCIE_ROOT: "root", Near.NUMA_NODE: "numa"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way to serve a device; what all ways have in common is not in it."""

    name: str
    """A DNS label, unique in its request."""
    device_class: str
    capacity: Mapping[str, str]
    selectors: tuple[str, ...] = ()
    near: Near | None = None
    """What its devices have in common."""

    @property
    def is_mig(self) -> bool:
        """Tell whether its devices are parts of a GPU."""
        return self.device_class == CLASS_MIG


def alternatives_of(request: ShareRequest) -> tuple[Alternative, ...]:
    """Return the alternatives of each device of *request*, the best first."""
    return tuple(
        _combined(kind, near, step)
        for near in (*request.near, None)
        for step in _fill_tests(request)
        for kind in _kinds(request, filled=step is not None)
    )


def separate(request: ShareRequest) -> bool:
    """Tell whether each device of *request* is a request of its own in the claim."""
    if request.count == 1 or request.takes_mig:
        return False
    return not request.count_is_distinct or (_varies(request) and request.count <= MIXED_MAX)


def fits(request: ShareRequest) -> bool:
    """Tell whether the API server takes the alternatives of *request*."""
    if how_many(request) > ALTERNATIVES_MAX:
        return False
    if not separate(request):
        return True
    # For each closeness one constraint and one more for each request, beside two others.
    constraints = 2 + len(request.near) * (1 + request.count)
    named = request.count * _of_one_closeness(request) if request.near else 0
    return max(constraints, named) <= CONSTRAINTS_MAX


def how_many(request: ShareRequest) -> int:
    """Return the number of alternatives without making them."""
    return (len(request.near) + 1) * _of_one_closeness(request)


def _of_one_closeness(request: ShareRequest) -> int:
    if request.whole:
        return 1
    sizes = max(1, len(request.sizes_mib)) * max(1, len(request.shares))
    gpus = sizes * (request.fill_steps or 1) if request.takes_gpus else 0
    return gpus + (len(request.mig_sizes_mib) + 1 if request.takes_mig else 0)


def fitted(request: ShareRequest, field: str) -> tuple[ShareRequest, tuple[Refusal, ...]]:
    """Return *request* with as many wishes as there is room for, and what was left out.

    *field* is where the warnings point. Sizes alone must have room already.
    """
    if fits(request):
        return request, ()
    for less in _with_less(request):
        if fits(less):
            return less, _left_out(request, less, field)
    message = f"{how_many(request)} alternatives without any wish"
    raise ValueError(message)


def _with_less(request: ShareRequest) -> Iterator[ShareRequest]:
    """Yield *request* and what is less of it, the least loss first."""
    nears = [request.near]
    if len(request.near) > 1:
        nears.append((Near.NUMA_NODE,))
    if request.near:
        nears.append(())
    fills: list[int | None] = list(range(request.fill_steps or 1, 1, -1))
    for near in nears:
        for steps in [*fills, None]:
            fill = request.fill if steps else None
            yield request.model_copy(update={"near": near, "fill_steps": steps, "fill": fill})


def _left_out(request: ShareRequest, less: ShareRequest, field: str) -> tuple[Refusal, ...]:
    lost = [f"devices of one {near.value}" for near in request.near if near not in less.near]
    if request.fill_steps != less.fill_steps:
        steps = less.fill_steps or 1
        lost.append(f"{request.fill} in {request.fill_steps} steps (now {steps})")
    if not lost:
        return ()
    return (
        Refusal(
            code="AlternativesDropped",
            field=field,
            value=", ".join(lost),
            limit=f"a request has at most {ALTERNATIVES_MAX} alternatives, sizes come first",
        ),
    )


def _varies(request: ShareRequest) -> bool:
    return len(request.sizes_mib) > 1 or len(request.shares) > 1


def _fill_tests(request: ShareRequest) -> list[tuple[str, str] | None]:
    """Return a name and a test for each step, the best first; the last takes every GPU."""
    if request.fill is None or request.fill_steps is None or not request.takes_gpus:
        return [None]
    if request.fill == "binpack":
        levels = range(request.fill_steps - 1, 0, -1)
        return [*((f"from{level}", cel.filled_at_least(level)) for level in levels), None]
    levels = range(1, request.fill_steps)
    return [*((f"below{level}", cel.filled_below(level)) for level in levels), None]


def _kinds(request: ShareRequest, *, filled: bool) -> Iterator[Alternative]:
    if request.whole:
        yield Alternative(
            name="whole",
            device_class=CLASS_WHOLE,
            capacity={CAPACITY_CORES: whole(request.cores).canonical()},
        )
        return
    if request.takes_gpus:
        yield from _shares(request)
    if request.takes_mig and not filled:
        yield from _partitions(request)


def _shares(request: ShareRequest) -> Iterator[Alternative]:
    totals: tuple[int | None, ...] = request.sizes_mib or (None,)
    for total_mib in totals:
        for shares in request.shares or (None,):
            yield _share(request, total_mib, shares)


def _share(request: ShareRequest, total_mib: int | None, shares: int | None) -> Alternative:
    names, selectors = [], []
    memory_mib = request.memory_mib or 0
    if total_mib is not None:
        names.append(f"{total_mib}mib")
        selectors.append(cel.total_memory_is(total_mib))
        memory_mib = max(1, total_mib * (request.memory_percent or 0) // 100)
    capacity = {
        CAPACITY_MEMORY: _mib(memory_mib),
        CAPACITY_CORES: whole(request.cores).canonical(),
    }
    if shares is not None:
        names.append(f"alone{shares}")
        selectors.append(cel.shares_are(shares))
        capacity[CAPACITY_SHARES] = whole(shares).canonical()
    return Alternative(
        name="-".join(names) or "share",
        device_class=CLASS_SHARE,
        capacity=capacity,
        selectors=tuple(selectors),
    )


def _partitions(request: ShareRequest) -> Iterator[Alternative]:
    """Yield the smallest MIG devices first, as HAMi chooses, and then any that is large enough.

    A MIG device has no cores to ask for.
    """
    for size_mib in request.mig_sizes_mib:
        yield Alternative(
            name=f"mig-{size_mib}mib",
            device_class=CLASS_MIG,
            capacity={CAPACITY_MEMORY: _mib(size_mib)},
            selectors=(cel.total_memory_is(size_mib),),
        )
    memory_mib = request.memory_mib or 1
    yield Alternative(
        name="mig",
        device_class=CLASS_MIG,
        capacity={CAPACITY_MEMORY: _mib(memory_mib)},
        selectors=(cel.total_memory_at_least(memory_mib),),
    )


def _combined(kind: Alternative, near: Near | None, step: tuple[str, str] | None) -> Alternative:
    names = [kind.name]
    selectors = kind.selectors
    if step is not None:
        names.insert(0, step[0])
        selectors = (*selectors, step[1])
    if near is not None:
        names.insert(0, _NAMES[near])
    return Alternative(
        name="-".join(names),
        device_class=kind.device_class,
        capacity=kind.capacity,
        selectors=selectors,
        near=near,
    )


def _mib(memory_mib: int) -> str:
    return whole(memory_mib * _MIB, binary=True).canonical()
