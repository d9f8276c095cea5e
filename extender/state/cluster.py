"""All that is known of the cluster: fed by watches, read by decisions, changed by reservations.

Everything here is called in one loop and returns at once. What is booked for a pod follows from
three facts about it: what its annotations say, what it is promised, and whether the former count.
After each change of one of these the wanted bookings are compared with those that are there, so
the order of events does not matter and none counts twice.

The annotations of a pod that is bound to no node are those of a binding under way, or of one that
failed. When the scheduler asks for the pod again they are old, but a scheduler that has lost the
lead may be writing the binding still; so they count for a while longer and then no more.
"""

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from extender.model import Ask, Placement
from extender.parts import Reservation
from extender.state import given
from extender.state.bookings import Bookings, Holder
from extender.state.bounds import Bounds, Room
from extender.state.nodes import Nodes
from extender.state.places import Held, Place, Places
from extender.state.reading import WatchedNode, WatchedPod, WatchedQuota
from extender.state.reservations import CONFIRMATION_S, DEADLINE_S, Promise, Promises
from extender.state.trust import Trust
from hami.backends import Backend, backends
from hami.deviceconfig import DeviceConfig
from hami.quota import quota_names

_FADE_S: Final = 30.0


class Cluster:
    """Nodes, pods, quotas and promises."""

    def __init__(
        self,
        config: DeviceConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        reservation_s: float = DEADLINE_S,
    ) -> None:
        """Begin with nothing; *clock* counts seconds, *wall* is read for signs of life."""
        self.config = config
        self.backends: tuple[Backend, ...] = backends(config)
        self._by_word = {each.word: each for each in self.backends}
        self._clock, self._reservation_s = clock, reservation_s
        self.bounds = Bounds(quota_names(config.nvidia, config.vendors))
        self.places = Places(self._place_changed)
        self._bookings = Bookings(self.places, self.bounds)
        self._listeners: list[Callable[[Place], None]] = []
        self.nodes = Nodes(self.places, self.backends, wall)
        self._holders: dict[str, Holder] = {}
        self._uids: dict[str, dict[str, str]] = {}
        """By namespace and name."""
        self._promises = Promises()
        self._trust = Trust(self.backends)
        self._voids: list[tuple[float, str]] = []

    def on_place(self, listener: Callable[[Place], None]) -> None:
        """Have *listener* called with each place whose usage or node may have changed."""
        self._listeners.append(listener)

    # Watches

    def put_node(self, node: WatchedNode) -> None:
        """Take a new or changed node."""
        self.nodes.put(node)

    def drop_node(self, name: str) -> None:
        """Forget a node that is gone."""
        self.nodes.drop(name)

    def put_pod(self, pod: WatchedPod) -> None:
        """Take a new or changed pod."""
        uids = self._uids.setdefault(pod.namespace, {})
        before = uids.get(pod.name)
        if before is not None and before != pod.uid:
            self._drop_holder(before)
        uids[pod.name] = pod.uid
        holder = self._holders.setdefault(pod.uid, Holder())
        old, holder.pod = holder.pod, pod
        if old is None or old.says != pod.says:
            if old is not None and not self._is_moved(pod):
                self._trust.change(old, pod)
            holder.written, holder.void_at_s = self._trust.written(pod), None
            if holder.written is not None and not pod.node:
                self._trust.wait(pod, self._clock())
        if pod.is_over or self._is_confirmed(holder, pod):
            self._promises.drop(pod.uid)
        self._settle(pod.uid)

    def drop_pod(self, pod: WatchedPod) -> None:
        """Forget a pod that is gone, and whatever it was promised."""
        uids = self._uids.get(pod.namespace, {})
        if uids.get(pod.name) == pod.uid:
            del uids[pod.name]
            if not uids:
                del self._uids[pod.namespace]
        self._drop_holder(pod.uid)

    def put_quota(self, quota: WatchedQuota) -> None:
        """Take a new or changed quota."""
        self.bounds.put(quota)

    def drop_quota(self, namespace: str, name: str) -> None:
        """Forget a quota that is gone."""
        self.bounds.drop(namespace, name)

    # Time

    def tick(self) -> None:
        """End what is overdue; to be called about once a second."""
        now_s = self._clock()
        for uid in self._promises.overdue(now_s):
            self._promises.drop(uid)
            self._settle(uid)
        while self._voids and self._voids[0][0] <= now_s:
            _, uid = heapq.heappop(self._voids)
            self._settle(uid)
        for pod in self._trust.overdue(now_s):
            holder = self._holders.get(pod.uid)
            if holder is not None and holder.pod is not None and holder.pod.says == pod.says:
                holder.void_at_s = now_s
                self._settle(pod.uid)
        self.nodes.look_again()

    # Promises

    def begin(self, uid: str) -> None:
        """Forget what a pod was promised: its scheduler asks anew.

        What is written on it counts a while longer, unless it is bound: then it counts on.
        """
        promise = self._promises.drop(uid)
        holder = self._holders.get(uid)
        if holder is not None and holder.written is not None and holder.void_at_s is None:
            pod = holder.pod
            if pod is not None and not pod.node:
                holder.void_at_s = self._clock() + _FADE_S
                heapq.heappush(self._voids, (holder.void_at_s, uid))
        if promise is not None:
            self._settle(uid)

    def lift(self, uid: str) -> tuple[Held, ...]:
        """Take away for a moment what a pod has; `put_back` must follow."""
        holder = self._holders.get(uid)
        if holder is None or not holder.booked:
            return ()
        return self._bookings.change(holder, ())

    def put_back(self, uid: str, lifted: tuple[Held, ...]) -> None:
        """Book again what was lifted."""
        if lifted:
            self._settle(uid)

    def reserve(self, ask: Ask, placement: Placement) -> Reservation:
        """Promise *placement* to a pod, in the place of what it was promised before."""
        reservation = given.reservation_of(ask, placement, self._by_word)
        holder = self._holders.get(ask.uid)
        promise = Promise(
            reservation=reservation,
            held=given.held_for(ask, placement),
            deadline_s=self._clock() + self._reservation_s,
            moves=bool(holder and holder.pod and holder.pod.node),
        )
        self._promises.put(promise)
        self._settle(ask.uid)
        return reservation

    def promise(self, uid: str) -> Promise | None:
        """Return what a pod is promised, if its time is not up."""
        promise = self._promises.get(uid)
        return promise if promise and promise.deadline_s > self._clock() else None

    def hold(self, uid: str, seconds: float) -> None:
        """Keep a promise for *seconds* from now at least."""
        promise = self.promise(uid)
        until_s = self._clock() + seconds
        if promise is not None and promise.deadline_s < until_s:
            self._promises.put(replace(promise, deadline_s=until_s))

    def written(self, uid: str) -> None:
        """Take note that a pod is bound, so that the watch must show it soon."""
        promise = self._promises.get(uid)
        if promise is not None:
            until_s = self._clock() + CONFIRMATION_S
            self._promises.put(replace(promise, deadline_s=until_s, is_written=True))

    def drop_promise(self, uid: str) -> None:
        """Forget a promise, if there is one."""
        if self._promises.drop(uid) is not None:
            self._settle(uid)

    def drop_promises(self) -> None:
        """Forget all promises but those to pods that are bound, and believe what is written."""
        for promise in self._promises:
            if not promise.is_written:
                self.drop_promise(promise.uid)
        for uid in self._trust.forget_all():
            holder = self._holders.get(uid)
            if holder is not None and holder.pod is not None:
                holder.written = self._trust.written(holder.pod)
                self._settle(uid)

    # What is known

    def pod(self, namespace: str, name: str) -> WatchedPod | None:
        """Return a pod."""
        uid = self._uids.get(namespace, {}).get(name)
        holder = None if uid is None else self._holders.get(uid)
        return None if holder is None else holder.pod

    def room(self, namespace: str) -> Room:
        """Return what the quotas of a namespace leave."""
        return self.bounds.room(namespace)

    def promises(self) -> Iterator[Promise]:
        """Return all promises, also those whose time is up."""
        return iter(self._promises)

    def holders(self) -> Iterator[tuple[str, Holder]]:
        """Return all pods by UID."""
        return iter(tuple(self._holders.items()))

    # Bookings

    def reckoned(self, uid: str, holder: Holder) -> tuple[Held, ...]:
        """Return what should be booked for a pod, read from its annotations anew."""
        written = None if holder.pod is None else self._trust.written(holder.pod)
        fresh = Holder(pod=holder.pod, written=written, void_at_s=holder.void_at_s)
        return self.wanted(uid, fresh, self._clock())

    def rebook(self, place: Place, expected: Sequence[Held]) -> None:
        """Book *expected* on a place, whatever is there."""
        self._bookings.replace(place, expected, self._holders)

    def wanted(self, uid: str, holder: Holder, now_s: float) -> tuple[Held, ...]:
        """Return what should be booked for a pod."""
        is_void = holder.void_at_s is not None and holder.void_at_s <= now_s
        written = None if is_void else holder.written
        promise = self._promises.get(uid)
        promised = None if promise is None else promise.held
        return tuple(held for held in (written, promised) if held is not None)

    def _settle(self, uid: str) -> None:
        """Book what should be, and nothing else."""
        holder = self._holders.setdefault(uid, Holder())
        wanted = self.wanted(uid, holder, self._clock())
        self._bookings.change(holder, wanted)
        if holder.pod is None and not wanted:
            del self._holders[uid]

    def _drop_holder(self, uid: str) -> None:
        self._promises.drop(uid)
        self._trust.forget(uid)
        holder = self._holders.get(uid)
        if holder is not None:
            holder.pod = holder.written = None
            self._settle(uid)

    def _is_confirmed(self, holder: Holder, pod: WatchedPod) -> bool:
        """Tell whether the watch shows that a promise is written, or that another one won."""
        promise = self._promises.get(pod.uid)
        if promise is None or holder.written is None:
            return False
        if pod.node and not promise.moves:
            return True
        if holder.void_at_s is not None:
            return False
        return given.is_written(promise.reservation, pod, self._by_word)

    def _is_moved(self, pod: WatchedPod) -> bool:
        """Tell whether *pod* shows the move that it was promised."""
        promise = self._promises.get(pod.uid)
        return (
            promise is not None
            and promise.moves
            and given.is_written(promise.reservation, pod, self._by_word)
        )

    def _place_changed(self, place: Place) -> None:
        for listener in self._listeners:
            listener(place)
