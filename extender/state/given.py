"""What pods were given or promised, as something to book on a node."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from extender import accounting
from extender.accounting import Booking, Use
from extender.model import Ask, Placement
from extender.parts import Reservation
from extender.state.places import Held
from extender.state.reading import WatchedPod, is_of_neighbour
from hami import annotations, keys
from hami.backends import Backend
from hami.containers import ContainerKind
from hami.devices import MigAllocation, Slots
from hami.reading import Undecodable

_NONE: Final[Mapping[str, str]] = {}
_PROMISED: Final = "/promised"
_UNREADABLE: Final = "cannot read its allocation"
_UNTOLD: Final = "it runs here with devices of which nothing is written"
_STRAYS: Final = "it is to be handed out other devices than it is said to have"


def held_by(pod: WatchedPod, backends: Sequence[Backend]) -> Held | None:
    """Return what the annotations of *pod* say that it has, `None` where it has nothing.

    Where nobody can tell what a bound pod has, that is a problem of its node: what is written can't
    be read, is missing, was written for another node, or is not what it is to be handed out.
    """
    if pod.is_over or not (pod.node or pod.planned_node):
        return None
    if pod.node and pod.planned_node not in {"", pod.node}:
        what = f"pod {pod} runs here, but its allocation is for {pod.planned_node}"
        return _of(pod, None, problem=what)
    given = _given(pod, backends)
    if isinstance(given, Undecodable):
        return _problem(pod, f"{_UNREADABLE}: {given}")
    slots, mig = given
    if not any(map(any, slots.values())) and not mig:
        return _problem(pod, _UNTOLD) if pod.is_running and pod.takes else None
    booking = Booking(
        uid=pod.uid,
        uses=accounting.compact({word: _uses(pod, word, each) for word, each in slots.items()}),
        mig=mig,
        annotations=_for_neighbours(pod.annotations),
    )
    return _of(pod, booking, problem=f"pod {pod}: {_STRAYS}" if pod.node and pod.strays else "")


def joined(one: Held | None, two: Held | None) -> Held | None:
    """Return the most that either says of each device, with the problem of the second."""
    if one is None or one.booking is None:
        return two
    if two is None:
        return one
    booking = one.booking if two.booking is None else accounting.most(one.booking, two.booking)
    return msgspec.structs.replace(two, booking=booking)


def _problem(pod: WatchedPod, what: str) -> Held | None:
    return _of(pod, None, problem=f"pod {pod}: {what}") if pod.node else None


def _for_neighbours(annotations: Mapping[str, str]) -> Mapping[str, str]:
    found = {key: text for key, text in annotations.items() if is_of_neighbour(key)}
    return found or _NONE


def _uses(pod: WatchedPod, word: str, slots: Slots) -> Mapping[str, Use]:
    """Return what *slots* take together.

    HAMi v2.10 leaves places out where only some containers ask (`pkg/scheduler/score.go`), so that
    nobody can tell whose they are: then all count together and nothing ends.
    """
    if len(slots) < pod.containers + pod.init_containers:
        return accounting.collapse({word: slots}, 0)[word]
    count = accounting.steady if pod.inits_done else accounting.collapse
    return count({word: slots}, pod.init_containers, pod.sidecars)[word]


def _of(pod: WatchedPod, booking: Booking | None, *, problem: str = "") -> Held:
    return Held(
        key=pod.uid,
        uid=pod.uid,
        node=pod.node or pod.planned_node,
        namespace=pod.namespace,
        name=pod.name,
        booking=booking,
        problem=problem,
        is_bound=bool(pod.node),
    )


def booking_of(key: str, ask: Ask, placement: Placement) -> Booking:
    """Return what a pod takes that is placed so."""
    kinds = [request.container.kind for request in ask.valid.requests]
    init_count = sum(kind is not ContainerKind.APP for kind in kinds)
    sidecars = [index for index, kind in enumerate(kinds) if kind is ContainerKind.SIDECAR]
    return Booking(
        uid=key,
        uses=accounting.compact(accounting.collapse(placement.slots, init_count, sidecars)),
        mig=placement.mig,
        annotations=_for_neighbours({**ask.annotations, **placement.annotations}),
    )


def held_for(ask: Ask, placement: Placement) -> Held:
    """Return the same as what a promise books."""
    key = ask.uid + _PROMISED
    return Held(
        key=key,
        uid=ask.uid,
        node=placement.node,
        namespace=ask.namespace,
        name=ask.name,
        booking=booking_of(key, ask, placement),
    )


def reservation_of(ask: Ask, placement: Placement, backends: Mapping[str, Backend]) -> Reservation:
    """Return what a binding needs to know of a placement."""
    written = written_annotations(placement, backends)
    return Reservation(
        uid=ask.uid,
        namespace=ask.namespace,
        name=ask.name,
        placement=placement,
        locks=frozenset(lock for word in placement.slots if (lock := backends[word].lock)),
        annotations=written,
        version=ask.version,
        foreign=frozenset(
            key for key in ask.annotations if keys.is_scheduler_owned(key) and key not in written
        ),
    )


def is_written(reservation: Reservation, pod: WatchedPod, backends: Mapping[str, Backend]) -> bool:
    """Tell whether *pod* says that it was given what is reserved for it."""
    placement = reservation.placement
    lists = (backends[word].support_key for word in placement.slots)
    same = all(pod.annotations.get(key) == reservation.annotations[key] for key in lists)
    return same and pod.planned_node == placement.node


def written_annotations(placement: Placement, backends: Mapping[str, Backend]) -> dict[str, str]:
    """Return the annotations that say to every device plugin what is placed."""
    found = dict(placement.annotations)
    for word, slots in placement.slots.items():
        backend = backends[word]
        text = annotations.encode_pod_devices(slots)
        found |= {key: text for key in (backend.in_request_key, backend.support_key) if key}
    if placement.mig:
        found[keys.MIG_ALLOCATIONS] = annotations.encode_mig_allocations(placement.mig)
    return found


def _given(
    pod: WatchedPod, backends: Sequence[Backend]
) -> tuple[dict[str, Slots], tuple[MigAllocation, ...]] | Undecodable:
    slots: dict[str, Slots] = {}
    for backend in backends:
        text = pod.annotations.get(backend.support_key)
        if text is None:
            continue
        found = annotations.decode_pod_devices(text, None)
        if isinstance(found, Undecodable):
            return found
        if any(found[pod.containers + pod.init_containers :]):
            return Undecodable(f"has {len(found)} places")
        slots[backend.word] = found
    text = pod.annotations.get(keys.MIG_ALLOCATIONS, "")
    mig = annotations.decode_mig_allocations(text)
    return mig if isinstance(mig, Undecodable) else (slots, mig)
