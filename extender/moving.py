"""Moves devices of pods that are bound: what `/refit` asks, on the state by which pods are placed.

The new devices are promised to the pod beside what it has, until the watch shows that they are
written. HAMi's plugin empties the place of each container in the list of what is to be handed out
as soon as that has happened; such places stay empty.
"""

from typing import Final

from extender.choosing import NodeChooser
from extender.fitting.refit import refit
from extender.model import Ask, Misfit, Placement, Policies
from extender.parts import RefitAsk, Refitted
from extender.state.cluster import Cluster
from hami import keys, preference_reading
from hami.backends import NvidiaBackend
from hami.containers import JsonObject
from hami.devices import Slots
from hami.poddevices import decode_pod_devices, encode_pod_devices
from hami.reading import Undecodable
from hami.requests import NVIDIA

_BACKEND: Final = NvidiaBackend(count_name="")
"""Whose annotations are read and written."""


class _NotMovedError(Exception):
    """The text says why."""


class Mover:
    """A `Refitter` for NVIDIA's GPUs; used in the loop that feeds *cluster*."""

    def __init__(self, cluster: Cluster, chooser: NodeChooser, policies: Policies) -> None:
        self._cluster, self._chooser, self._policies = cluster, chooser, policies

    def refit(self, ask: RefitAsk, pod: JsonObject) -> Refitted | str:
        """Choose and promise, or say why not."""
        try:
            wish = self._wish(ask, pod)
            return self._promised(ask, wish, pod)
        except _NotMovedError as error:
            return str(error)

    def keep(self, ask: RefitAsk) -> None:
        """Leave it to the watch to show that the annotations are written."""
        self._cluster.written(ask.uid)

    def undo(self, ask: RefitAsk) -> None:
        """Take the promise back."""
        self._cluster.drop_promise(ask.uid)

    def _wish(self, ask: RefitAsk, pod: JsonObject) -> Ask:
        if ask.word != NVIDIA:
            raise _NotMovedError("only NVIDIA's devices can be moved")
        wish = self._chooser.read(pod)
        if not isinstance(wish, Ask):
            raise _NotMovedError("the pod asks for no devices, or for some that cannot be read")
        requests, position = wish.valid.requests, ask.container_index
        if position >= len(requests):
            message = f"the pod has {len(requests)} containers"
            raise _NotMovedError(message)
        name = requests[position].container.name
        if ask.container_name not in {"", name}:
            message = f"container {position} is {name}"
            raise _NotMovedError(message)
        return wish

    def _promised(self, ask: RefitAsk, wish: Ask, pod: JsonObject) -> Refitted:
        annotations, position = preference_reading.annotations_of(pod), ask.container_index
        if annotations.get(keys.MIG_ALLOCATIONS):
            raise _NotMovedError("instances of MIG do not move")
        containers = len(wish.valid.requests)
        given = _slots(annotations.get(_BACKEND.support_key), containers)
        left = _slots(annotations.get(_BACKEND.in_request_key), containers)
        moved = self._moved(ask, wish, given)
        self._cluster.reserve(wish, Placement(node=ask.node, score=0.0, slots={NVIDIA: moved}))
        to_hand_out = (*left[:position], moved[position], *left[position + 1 :])
        return Refitted(
            devices=moved[position],
            annotations={
                _BACKEND.in_request_key: encode_pod_devices(to_hand_out),
                _BACKEND.support_key: encode_pod_devices(moved),
            },
        )

    def _moved(self, ask: RefitAsk, wish: Ask, given: Slots) -> Slots:
        lifted = self._cluster.lift(ask.uid)
        try:
            place = self._cluster.places.get(ask.node)
            if place is None or place.usage is None:
                message = f"node {ask.node} is not known"
                raise _NotMovedError(message)
            found = refit(
                place.usage,
                wish,
                self._policies,
                self._cluster.room(wish.namespace),
                slots=given,
                position=ask.container_index,
                allowed=ask.allowed,
            )
        finally:
            self._cluster.put_back(ask.uid, lifted)
        if isinstance(found, Misfit):
            raise _NotMovedError(str(found))
        return found


def _slots(text: object, containers: int) -> Slots:
    if not isinstance(text, str) or not text:
        raise _NotMovedError("the pod was given no devices")
    found = decode_pod_devices(text, None)
    if isinstance(found, Undecodable):
        message = f"the pod's devices cannot be read: {found}"
        raise _NotMovedError(message)
    if len(found) < containers:
        raise _NotMovedError("the pod's devices have no place for each container")
    return found[:containers]
