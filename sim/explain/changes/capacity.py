"""Ask for less of a capacity, or by the name under which the devices have it."""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from kube.objects import JsonObject
from kube.quantity import Quantity, QuantityError
from sim.explain.case import Case
from sim.explain.changes.proposal import Proposal, request_edit
from sim.explain.devicereasons import device_of
from sim.explain.model import Change
from sim.explain.naming import Place
from sim.explain.shortages import Shortage, capacity_named, shortages
from sim.scheduler.amounts import parse
from sim.scheduler.devices import Device
from sim.scheduler.placement import Unplaced
from sim.scheduler.verdicts import DeviceVerdict, Refused

_LOOKED_AT_MAX = 400
_PROPOSED_MAX = 8
_THOUSAND = 1000
_FREE = re.compile(r"free (\S+) of \S+")
_RANK_RENAMED = 5
_RANK_ONE = 20
_RANK_SEVERAL = 45
_RANK_STEPS = 20
"""What remains of a request decides about the rank in this many steps."""


class Lack(NamedTuple):
    """A device that has too little for a request."""

    verdict: DeviceVerdict
    place: Place
    device: Device


def lacking(case: Case, found: Unplaced) -> list[Lack]:
    """Return the devices that have too little, the ones that nearly fit first."""
    short = [
        it for it in found.verdicts if it.refused.code.endswith(("Insufficient", "NotAllowed"))
    ]
    nearest = heapq.nsmallest(_LOOKED_AT_MAX, short, key=lambda it: _missing(it.refused))
    found_lacks = []
    for verdict in nearest:
        place = case.places.get((verdict.claim, verdict.request))
        device = device_of(case, verdict)
        if place is not None and device is not None:
            found_lacks.append(Lack(verdict, place, device))
    return found_lacks


def shortages_of(case: Case, lack: Lack) -> tuple[Shortage, ...]:
    """Return all that the device lacks, also where the pod's other requests have taken it."""
    wanted, features = lack.place.wanted, case.allocator.features
    found = shortages(wanted, lack.device, case.cluster.usage, features)
    return found or tuple(_beside_own(lack))


def lower_capacity(case: Case, found: Unplaced) -> Iterator[Proposal]:
    """Propose to ask for what is free on the devices that nearly fit."""
    proposals: dict[tuple[str, ...], tuple[int, Lack, tuple[Shortage, ...], list[str]]] = {}
    for lack in lacking(case, found):
        short = shortages_of(case, lack)
        most = [str(it.most) for it in short if it.most is not None]
        if not short or len(most) < len(short):
            continue
        key = (str(lack.place.claim), lack.place.wanted.name, *most)
        known = proposals.setdefault(key, (_rank(short), lack, short, []))
        if lack.verdict.node not in known[3]:
            known[3].append(lack.verdict.node)
    for rank, lack, short, nodes in heapq.nsmallest(
        _PROPOSED_MAX, proposals.values(), key=lambda it: it[0]
    ):
        yield _lowered(lack.place, short, rank, tuple(nodes[:3]))


def rename_capacity(case: Case, found: Unplaced) -> Iterator[Proposal]:
    """Propose the names that the devices have for what is asked."""
    unknown = (it for it in found.verdicts if it.refused.code == "CapacityNameUnknown")
    for verdict in islice(unknown, _PROPOSED_MAX):
        place = case.places.get((verdict.claim, verdict.request))
        device = device_of(case, verdict)
        if place is None or device is None:
            continue
        for name in place.wanted.capacity:
            known = _same_bare_name(name, device.capacity)
            if name not in device.capacity:
                yield _renamed(place, name, known, verdict.node)


def _lowered(
    place: Place, short: tuple[Shortage, ...], rank: int, nodes: tuple[str, ...]
) -> Proposal:
    amounts = {it.name: str(it.most) for it in short}
    before = [str(it.asked) if it.asked is not None else "not named" for it in short]
    parts = [
        f"{it.name} {it.most} instead of {was if it.asked is not None else it.takes}"
        for it, was in zip(short, before, strict=True)
    ]
    return Proposal(
        change=Change(
            code="LowerCapacity" if len(short) == 1 else "LowerCapacities",
            field=f"{place.claim}: {place.capacity_path}",
            before=", ".join(f"{it.name} {was}" for it, was in zip(short, before, strict=True)),
            after=", ".join(f"{name} {amount}" for name, amount in amounts.items()),
            sentence=f"request {place.wanted.name} asks for {' and '.join(parts)}",
            node="",
        ),
        rank=rank,
        edit=request_edit(place.claim, place.wanted.name, _setting(amounts)),
        nodes=nodes,
    )


def _renamed(place: Place, name: str, known: str, node: str) -> Proposal:
    """Propose to ask for *known* instead of *name*, or not at all where nothing like it is."""

    def change(request: JsonObject) -> None:
        asked = request["capacity"]["requests"]
        amount = asked.pop(name)
        if known:
            asked[known] = amount

    instead = f"asks for {known} instead of {name}" if known else f"does not ask for {name}"
    return Proposal(
        change=Change(
            code="RenameCapacity" if known else "DropCapacity",
            field=f"{place.claim}: {place.capacity_path}",
            before=name,
            after=known,
            sentence=f"request {place.wanted.name} {instead}",
            node="",
        ),
        rank=_RANK_RENAMED,
        edit=request_edit(place.claim, place.wanted.name, change),
        nodes=(node,),
    )


def _setting(amounts: dict[str, str]) -> Callable[[JsonObject], None]:
    def change(request: JsonObject) -> None:
        capacity = request.setdefault("capacity", {})
        capacity["requests"] = {**(capacity.get("requests") or {}), **amounts}

    return change


def _rank(short: tuple[Shortage, ...]) -> int:
    worst = max(_lost(it.takes, it.most) for it in short)
    return (_RANK_ONE if len(short) == 1 else _RANK_SEVERAL) + worst * _RANK_STEPS // _THOUSAND


def _lost(takes: Quantity | None, most: Quantity | None) -> int:
    """Return in thousandths what is lost between *takes* and *most*."""
    if takes is None or most is None or takes.nanos <= 0:
        return _THOUSAND
    return max(0, (takes.nanos - most.nanos) * _THOUSAND // takes.nanos)


@lru_cache(maxsize=16384)
def _missing(refused: Refused) -> int:
    try:
        return _lost(parse(refused.value.removeprefix("asked ")), _free(refused))
    except QuantityError:
        return _THOUSAND


def _free(refused: Refused) -> Quantity | None:
    match = _FREE.fullmatch(refused.limit)
    return parse(match[1]) if match else None


def _beside_own(lack: Lack) -> Iterator[Shortage]:
    refused, device = lack.verdict.refused, lack.device
    name, free = capacity_named(refused.code, device), _free(refused)
    if name and free is not None:
        asked = lack.place.wanted.capacity.get(name)
        takes = parse(refused.value.removeprefix("asked "))
        yield Shortage(name, asked, takes, free, device.capacity[name])


def _same_bare_name(name: str, known: Iterable[str]) -> str:
    bare = name.rpartition("/")[2]
    return next((it for it in known if it.rpartition("/")[2] == bare), "")
