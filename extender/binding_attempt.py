"""One try to bind a pod: what it writes, so that exactly this can be taken back."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from extender.locks import Wanted
from extender.parts import PodFacts, Reservation
from hami import keys
from hami.nodelock import Owner
from hami.vendors import Lock
from kube.objects import JsonObject

_ALLOCATING: Final = "allocating"
_LABEL_MAX: Final = 63
MARKS: Final = (keys.NODE, keys.TIME, keys.BIND_TIME)
"""Annotations by which a try is told from another of the same pod."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A reservation on its way."""

    reservation: Reservation
    metadata: JsonObject
    """Merged into the pod: its UID is a condition, the rest the decision."""
    locked: Mapping[Lock, str] = field(default_factory=dict)
    """The locks that were taken, as they were written."""

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

    def has_bound(self, pod: PodFacts | None) -> bool:
        """Tell whether *pod* is bound as it should be."""
        return pod is not None and (pod.uid, pod.node) == (self.uid, self.node)

    def has_marked(self, pod: JsonObject) -> bool:
        """Tell whether *pod* bears what this try has written, and not another since."""
        metadata = pod["metadata"]
        found, written = metadata.get("annotations") or {}, self.metadata["annotations"]
        same = all(found.get(key) == written[key] for key in MARKS)
        return metadata.get("uid") == self.uid and same

    def undone(self, resource_version: str) -> JsonObject:
        """Return what takes the annotations and the label off a pod of this version."""
        return {
            "uid": self.uid,
            "resourceVersion": resource_version,
            "annotations": dict.fromkeys(self.metadata["annotations"]),
            "labels": dict.fromkeys(self.metadata["labels"]),
        }


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
    labels = {keys.NODE: node} if len(node) <= _LABEL_MAX else {}
    metadata = {"uid": reservation.uid, "annotations": annotations, "labels": labels}
    return Attempt(reservation=reservation, metadata=metadata)
