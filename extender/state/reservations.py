"""What has been promised to pods and is not yet written on them.

A promise ends when the pod's annotations say the same, when the pod is gone, or when its time is
up: a pod that was filtered and never bound must not hold a device (the scheduler may have chosen to
try later, or may be another one by now).
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from extender.parts import Reservation
from extender.state.places import Held

DEADLINE_S: Final = 30.0
"""How long a scheduler may take from filter to bind."""
CONFIRMATION_S: Final = 300.0
"""How long a watch may take to show what has been written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A reservation and what it books."""

    reservation: Reservation
    held: Held
    deadline_s: float
    """By the clock of the state."""
    moves: bool = False
    """The pod is bound already and gets other devices on its node."""
    is_written: bool = False
    """The pod is bound, so that nobody but the watch may end this."""

    @property
    def uid(self) -> str:
        """The pod's."""
        return self.reservation.uid


class Promises:
    """All promises by the UID of their pod."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Promise] = {}
        self._ends: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Promise]:
        return iter(tuple(self._by_uid.values()))

    def get(self, uid: str) -> Promise | None:
        """Return the promise to a pod."""
        return self._by_uid.get(uid)

    def put(self, promise: Promise) -> None:
        """Take a promise in the place of another to the same pod."""
        self._by_uid[promise.uid] = promise
        heapq.heappush(self._ends, (promise.deadline_s, promise.uid))

    def drop(self, uid: str) -> Promise | None:
        """Forget a promise and return it."""
        return self._by_uid.pop(uid, None)

    def overdue(self, now_s: float) -> tuple[str, ...]:
        """Return whose time is up; each is told once."""
        found = []
        while self._ends and self._ends[0][0] <= now_s:
            _, uid = heapq.heappop(self._ends)
            promise = self._by_uid.get(uid)
            if promise is not None and promise.deadline_s <= now_s:
                found.append(uid)
        return tuple(dict.fromkeys(found))
