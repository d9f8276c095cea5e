"""How far annotations of pods are believed: their users may write them unless admission forbids it.

While a pod is bound to no node, what stands on it is a binding under way, or nothing. Nobody binds
for longer than some minutes, so it counts for no longer; it closes no node either.

A device plugin hands out what is written when the container starts, and nobody takes it back before
the pod ends. So what was once seen written on a bound pod is counted until then, be it removed or
replaced afterwards: of each device the most that any of the writings says. Only moves of our own
replace one (`extender.moving`). A new leader, like a new process, knows what is written now and no
more.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import structlog

from extender.state import given
from extender.state.places import Held
from extender.state.reading import WatchedPod
from hami import keys
from hami.backends import Backend

log = structlog.get_logger(__name__)

UNBOUND_S: Final = 300.0
"""Longer than any binding whose outcome is still being found out."""
_PHASES: Final = frozenset({keys.BIND_PHASE, keys.BIND_TIME})
"""What changes while a pod starts, and says nothing of its devices."""


class Trust:
    """What is to be counted of each pod; remembers only what does not stand on it any more."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = backends
        self._before: dict[str, Held] = {}
        self._waiting: deque[tuple[float, WatchedPod]] = deque()

    def written(self, pod: WatchedPod) -> Held | None:
        """Return what *pod* holds by all that was ever written on it."""
        found = given.held_by(pod, self._backends)
        return given.joined(self._before.get(pod.uid), found)

    def change(self, old: WatchedPod, new: WatchedPod) -> None:
        """Take note that a pod says something else by now, and nobody here has had it say so."""
        if new.is_over:
            self.forget(new.uid)
        elif old.node and old.node == new.node and _devices(old) != _devices(new):
            before = self.written(msgspec.structs.replace(new, annotations=old.annotations))
            after = given.held_by(new, self._backends)
            if before is not None and before.booking and given.joined(before, after) != after:
                log.warning("devices of a bound pod rewritten", pod=str(new), node=new.node)
                self._before[new.uid] = before

    def wait(self, pod: WatchedPod, now_s: float) -> None:
        """Take note of an annotated *pod* that is bound to no node."""
        self._waiting.append((now_s + UNBOUND_S, pod))

    def overdue(self, now_s: float) -> Iterator[WatchedPod]:
        """Return, as they were, pods of which it is time that they are bound; each once."""
        while self._waiting and self._waiting[0][0] <= now_s:
            yield self._waiting.popleft()[1]

    def forget(self, uid: str) -> None:
        """Forget what was written on a pod before."""
        self._before.pop(uid, None)

    def forget_all(self) -> tuple[str, ...]:
        """Forget it of all pods, and return of which."""
        uids = tuple(self._before)
        self._before.clear()
        return uids


def _devices(pod: WatchedPod) -> dict[str, str]:
    return {key: text for key, text in pod.annotations.items() if key not in _PHASES}
