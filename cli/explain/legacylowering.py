"""Lower what a legacy pod asks for to the most that fits somewhere.

The pod itself is changed and read again, so that defaults, factors and the rules of vendors have
their say. More of anything never fits better, so the most is found by halving.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from cli.explain.legacycase import LegacyCase, ask_of
from extender.model import Ask, DeviceUsage
from hami import resources
from hami.containers import Container
from hami.requests import NVIDIA, ContainerRequest, DeviceRequest, Valid
from kube.objects import JsonObject
from sim.explain.model import Change

_REQUESTS_MAX: Final = 4
_CORES_MAX: Final = 8
"""How many amounts of cores are tried together with memory, the largest first."""


@dataclass(frozen=True, slots=True)
class _Names:
    """The resources by which a vendor's devices are asked for; an empty name is none."""

    count: str
    memory: str
    percent: str
    cores: str
    factor: int


class _Found(NamedTuple):
    """The most that fits, and where."""

    value: int
    node: str


def lowered(case: LegacyCase, nodes: Sequence[str]) -> Iterator[Change]:
    """Yield fewer cores, less memory and fewer devices where one of these helps on *nodes*."""
    for lower in (_lower_cores, _lower_memory, _lower_count):
        for container, request in _asking(case):
            yield from lower(case, nodes, container, request)


def lowered_together(case: LegacyCase, nodes: Sequence[str]) -> Iterator[Change]:
    """Yield fewer cores with less memory."""
    for container, request in _asking(case):
        yield from _lower_both(case, nodes, container, request)


def _asking(case: LegacyCase) -> list[tuple[ContainerRequest, DeviceRequest]]:
    pairs = [(it, request) for it in case.ask.valid.requests for request in it.devices]
    return pairs[:_REQUESTS_MAX]


def reread(case: LegacyCase, pod: JsonObject) -> Ask | None:
    """Return what a changed *pod* asks, nothing where it must be refused."""
    found = resources.read(pod, case.config)
    return ask_of(pod, found) if isinstance(found, Valid) else None


def _lower_cores(
    case: LegacyCase, nodes: Sequence[str], container: ContainerRequest, request: DeviceRequest
) -> Iterator[Change]:
    name = _names(case, request.word).cores
    yield from _lowered(case, nodes, container, name, request.cores, code="LowerCores")


def _lower_memory(
    case: LegacyCase, nodes: Sequence[str], container: ContainerRequest, request: DeviceRequest
) -> Iterator[Change]:
    names = _names(case, request.word)
    code = "LowerMemory"
    if names.percent and _said(container, names.percent):
        percent = request.memory_percent or 0
        yield from _lowered(case, nodes, container, names.percent, percent, code=code)
        return
    largest_mib = max(
        (usage.device.memory_mib for node in nodes for usage in _usages(case, node, request.word)),
        default=0,
    )
    memory_mib = largest_mib if request.memory_mib is None else request.memory_mib
    # What no device has need not be tried.
    asked = min(memory_mib // names.factor, largest_mib // names.factor + 1)
    yield from _lowered(case, nodes, container, names.memory, asked, code=code)


def _lower_count(
    case: LegacyCase, nodes: Sequence[str], container: ContainerRequest, request: DeviceRequest
) -> Iterator[Change]:
    name = _names(case, request.word).count
    yield from _lowered(case, nodes, container, name, request.count, code="LowerCount")


def _lower_both(
    case: LegacyCase, nodes: Sequence[str], container: ContainerRequest, request: DeviceRequest
) -> Iterator[Change]:
    """Yield fewer cores and less memory together, with the most cores that help."""
    names = _names(case, request.word)
    if not names.memory or not names.cores or request.memory_mib is None:
        return
    free = {
        usage.device.cores - usage.used_cores
        for node in nodes
        for usage in _usages(case, node, request.word)
    }
    for cores in sorted((it for it in free if 0 < it < request.cores), reverse=True)[:_CORES_MAX]:
        fewer = _limited(case.pod, container, {names.cores: cores})

        @cache
        def with_value(value: int, pod: JsonObject = fewer) -> Ask | None:
            return reread(case, _limited(pod, container, {names.memory: value}))

        found = _most(case, nodes, with_value, request.memory_mib // names.factor)
        if found is not None:
            where = container.container
            yield Change(
                code="LowerAmounts",
                field=f"{_path(where)}.resources.limits",
                before=f"{_said(container, names.memory)}, {_said(container, names.cores)}",
                after=f"{found.value}, {cores}",
                sentence=f"container {where.name} asks for {names.memory} {found.value} and "
                f"{names.cores} {cores}",
                node=found.node,
            )
            return


def _lowered(
    case: LegacyCase,
    nodes: Sequence[str],
    container: ContainerRequest,
    name: str,
    asked: int,
    *,
    code: str,
) -> Iterator[Change]:
    """Yield the change to the most below *asked* of resource *name*, if any of it helps."""
    if not name:
        return

    @cache
    def with_value(value: int) -> Ask | None:
        return reread(case, _limited(case.pod, container, {name: value}))

    found = _most(case, nodes, with_value, asked)
    if found is None:
        return
    before, where = _said(container, name), container.container
    instead = f" instead of {before}" if before else ""
    yield Change(
        code=code,
        field=f"{_path(where)}.resources.limits[{name}]",
        before=before,
        after=str(found.value),
        sentence=f"container {where.name} asks for {name} {found.value}{instead}",
        node=found.node,
    )


def _most(
    case: LegacyCase, nodes: Sequence[str], with_value: Callable[[int], Ask | None], asked: int
) -> _Found | None:
    """Return the largest value below *asked* with which the pod fits on one of *nodes*."""
    best: _Found | None = None
    for node in nodes:

        def fits(value: int, node: str = node) -> bool:
            ask = with_value(value)
            return ask is not None and case.takes(node, ask)

        low = 1 if best is None else best.value + 1
        if low >= asked or not fits(low):
            continue
        high = asked
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        best = _Found(low, node)
    return best


def _path(container: Container) -> str:
    """Return where a container stands, as refusals say it."""
    return f"spec.{container.section}{{{container.name}}}"


def _names(case: LegacyCase, word: str) -> _Names:
    nvidia = case.config.nvidia
    if word == NVIDIA:
        return _Names(
            nvidia.resource_count_name,
            nvidia.resource_memory_name,
            nvidia.resource_memory_percentage_name,
            nvidia.resource_core_name,
            max(1, nvidia.memory_factor),
        )
    vendor = next(each for each in case.config.vendors if each.word == word)
    factor = max(1, vendor.memory_factor)
    return _Names(vendor.count_name, vendor.memory_name, "", vendor.core_name, factor)


def _usages(case: LegacyCase, node: str, word: str) -> Sequence[DeviceUsage]:
    usage = case.place(node).usage
    return () if usage is None else usage.devices.get(word, ())


def _said(container: ContainerRequest, name: str) -> str:
    """Return what a container writes for a resource."""
    said = container.container.raw.get("resources") or {}
    for side in ("limits", "requests"):
        amount = (said.get(side) or {}).get(name)
        if amount is not None:
            return str(amount)
    return ""


def _limited(pod: JsonObject, container: ContainerRequest, limits: Mapping[str, int]) -> JsonObject:
    """Return *pod* with other amounts of resources of one of its containers."""
    changed = deepcopy(pod)
    where = container.container
    said = changed["spec"][where.section][where.index].setdefault("resources", {})
    for side in ("limits", "requests"):
        had = said.get(side) or {}
        more = {key: str(it) for key, it in limits.items() if side == "limits" or key in had}
        said[side] = {**had, **more}
    return changed
