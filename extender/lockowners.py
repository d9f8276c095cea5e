"""Whether the pod that holds a node's lock will ever come to let it go.

HAMi waits five minutes for any pod that still exists. A lock is of use only while a device plugin
may look for its pod; when that cannot be any more it is taken over at once:

- the pod is gone, is over, or is another one of the same name (StatefulSets make these);
- it runs on another node;
- it has its devices, and the plugin had some seconds to remove the lock since it was set;
- it is bound to no node though no scheduler can be binding it still.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from extender.parts import PodFacts
from hami.nodelock import NodeLock

_OVER: Final = frozenset({"Succeeded", "Failed"})
_DONE: Final = frozenset({"success", "failed"})
_DONE_GRACE: Final = timedelta(seconds=5)


class Gone(StrEnum):
    """Why an owner counts for nothing; values of a metric's label."""

    MISSING = "missing"
    OVER = "over"
    REPLACED = "replaced"
    ELSEWHERE = "elsewhere"
    DONE = "done"
    UNBOUND = "unbound"
    EXPIRED = "expired"
    GIVEN_UP = "given-up"
    """It was set here by a try that had been given up by the time it was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Decides for one node."""

    node: str
    bind_max: timedelta
    """How long a binding can be under way."""

    def gone(
        self, lock: NodeLock, pod: PodFacts, *, now: datetime, taken_by: str | None
    ) -> Gone | None:
        """Tell whether *pod*, which *lock* names, is no owner; *taken_by* is a UID if known."""
        age = now - lock.at
        if pod.phase in _OVER:
            return Gone.OVER
        if taken_by is not None and pod.uid != taken_by:
            return Gone.REPLACED
        if not pod.node:
            return Gone.UNBOUND if age > self.bind_max else None
        if pod.node != self.node:
            return Gone.ELSEWHERE
        if pod.bind_phase in _DONE and age > _DONE_GRACE:
            return Gone.DONE
        return None
