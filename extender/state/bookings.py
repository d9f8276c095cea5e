"""What is booked for each pod, on nodes and in the quota of its namespace: both or neither."""

from collections.abc import Mapping, Sequence

import msgspec

from extender.state.bounds import Bounds
from extender.state.places import Held, Place, Places
from extender.state.reading import WatchedPod


class Holder(msgspec.Struct, kw_only=True, gc=False):
    """One pod and what is booked for it."""

    pod: WatchedPod | None = None
    written: Held | None = None
    """By its annotations."""
    void_at_s: float | None = None
    """When these cease to count."""
    booked: tuple[Held, ...] = ()


class Bookings:
    """Changes them."""

    def __init__(self, places: Places, bounds: Bounds) -> None:
        self._places, self._bounds = places, bounds

    def change(self, holder: Holder, wanted: tuple[Held, ...]) -> tuple[Held, ...]:
        """Book what is *wanted* for a pod and nothing else; return what was booked before."""
        had, holder.booked = holder.booked, wanted
        for held in had:
            if held not in wanted:
                self._places.release(held)
                self._count(held, -1)
        for held in wanted:
            if held not in had:
                self._places.hold(held)
                self._count(held, 1)
        return had

    def replace(
        self, place: Place, expected: Sequence[Held], holders: Mapping[str, Holder]
    ) -> None:
        """Book *expected* on a place, whatever is there; quotas are left as they are."""
        uids = {held.uid for held in (*place.held.values(), *expected)}
        self._places.rebook(place, expected)
        for uid in uids:
            holder = holders.get(uid)
            if holder is not None:
                others = (held for held in holder.booked if held.node != place.name)
                mine = (held for held in expected if held.uid == uid)
                holder.booked = (*others, *mine)

    def _count(self, held: Held, sign: int) -> None:
        if held.booking is not None:
            self._bounds.add(held.namespace, held.booking, sign)
