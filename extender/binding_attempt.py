"""One try to bind a pod: what it writes, so that exactly this can be taken back."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from extender.locks import Wanted
from extender.parts import Reservation
from hami import keys
from hami.nodelock import Owner
from hami.vendors import Lock
from kube.objects import JsonObject

_ALLOCATING: Final = "allocating"
_LABEL_MAX: Final = 63


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A reservation on its way."""

    reservation: Reservation
    annotations: Mapping[str, str]
    """The decision, and whose try it is."""
    labels: Mapping[str, str | None]
    locked: Mapping[Lock, str] = field(default_factory=dict)
    """The locks that were taken, as they were written."""
    may_be_written: bool = False
    """Whether the pod may bear any of it."""

    @property
    def uid(self) -> str:
        """The pod's."""
        return self.reservation.uid

    @property
    def namespace(self) -> str:
        """The pod's."""
        return self.reservation.namespace

    @property
    def name(self) -> str:
        """The pod's."""
        return self.reservation.name

    @property
    def node(self) -> str:
        """The one that was chosen."""
        return self.reservation.placement.node

    @property
    def words(self) -> tuple[str, ...]:
        """The vendors of the devices."""
        return tuple(sorted(self.reservation.placement.slots)) or ("",)

    @property
    def wanted(self) -> Wanted:
        """The locks that it needs."""
        return Wanted(
            node=self.node,
            uid=self.uid,
            owner=Owner(self.namespace, self.name),
            kinds=self.reservation.locks,
        )

    def has_bound(self, pod: JsonObject) -> bool:
        """Tell whether *pod* is bound as it should be."""
        return self.is_of(pod) and bool(pod["spec"].get("nodeName") == self.node)

    def is_of(self, pod: JsonObject) -> bool:
        """Tell whether *pod* is the one, and not another of its name."""
        return bool(pod["metadata"].get("uid") == self.uid)

    def has_marked(self, pod: JsonObject) -> bool:
        """Tell whether *pod* waits, and bears all that this try has written and another has not."""
        found = annotations_of(pod)
        same = all(found.get(key) == text for key, text in self.annotations.items())
        return self.is_of(pod) and not pod["spec"].get("nodeName") and same

    def first(self) -> JsonObject:
        """Return what is merged into the pod, if it is as it was when it was asked about."""
        return self._merged(self.reservation.version, self.reservation.foreign)

    def again(self, pod: JsonObject) -> JsonObject:
        """Return the same for the pod as it is now."""
        foreign = (key for key in annotations_of(pod) if keys.is_scheduler_owned(key))
        return self._merged(pod["metadata"]["resourceVersion"], foreign)

    def undone(self, pod: JsonObject) -> JsonObject:
        """Return what takes it all off a pod that is still as it is now."""
        return {
            "uid": self.uid,
            "resourceVersion": pod["metadata"]["resourceVersion"],
            "annotations": dict.fromkeys(self.annotations),
            "labels": dict.fromkeys(self.labels),
        }

    def _merged(self, version: str, foreign: Iterable[str]) -> JsonObject:
        metadata: JsonObject = {
            "uid": self.uid,
            "annotations": {**dict.fromkeys(foreign), **self.annotations},
            "labels": dict(self.labels),
        }
        return metadata | {"resourceVersion": version} if version else metadata


def attempt(reservation: Reservation) -> Attempt:
    """Begin a try now."""
    node, now = reservation.placement.node, str(int(time.time()))
    annotations = {
        **reservation.annotations,
        keys.NODE: node,
        keys.TIME: now,
        keys.BIND_PHASE: _ALLOCATING,
        keys.BIND_TIME: now,
    }
    # HAMi's monitor selects pods by the label; a longer name is no label, and of no other use.
    label = node if len(node) <= _LABEL_MAX else None
    return Attempt(reservation=reservation, annotations=annotations, labels={keys.NODE: label})


def annotations_of(pod: JsonObject) -> Mapping[str, Any]:
    """Return the annotations of a pod as the API server keeps it."""
    found: Mapping[str, Any] = pod["metadata"].get("annotations") or {}
    return found
