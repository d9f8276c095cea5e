"""The cluster as routes and bindings want to see it."""

from collections.abc import Callable, Iterator
from itertools import chain

from extender.model import NodeUsage
from extender.parts import NodeFacts, PodFacts, PodFigure, QuotaFigure, Reservation
from extender.state.cluster import Cluster
from hami import keys
from hami.devices import PodDevice
from hami.vendors import Lock

_LOCKS = tuple(lock for lock in Lock if lock)


class ClusterView:
    """Answers questions of the `State` kind; all in the loop that feeds the cluster."""

    def __init__(self, cluster: Cluster, *, not_synced: Callable[[], str | None]) -> None:
        """Take the cluster, and who knows whether it is complete."""
        self._cluster, self._not_synced = cluster, not_synced

    def not_synced(self) -> str | None:
        """Return what has not been read yet, `None` when decisions are sound."""
        return self._not_synced()

    def pod(self, namespace: str, name: str) -> PodFacts | None:
        """Return a pod that asks for devices, as the watch last showed it."""
        pod = self._cluster.pod(namespace, name)
        if pod is None:
            return None
        return PodFacts(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            node=pod.node,
            phase=pod.phase,
            bind_phase=pod.annotations.get(keys.BIND_PHASE, ""),
            is_terminating=pod.is_deleting,
            group=pod.group,
        )

    def node(self, name: str) -> NodeFacts | None:
        """Return a node, as the watch last showed it."""
        place = self._cluster.places.get(name)
        if place is None or place.node is None:
            return None
        node = place.node
        return NodeFacts(
            name=name,
            resource_version=node.resource_version,
            locks={lock: node.annotations.get(lock.value, "") for lock in _LOCKS},
        )

    def on_node(self, listener: Callable[[str], None]) -> None:
        """Have *listener* called with a node's name after each change of it, also its deletion."""
        self._cluster.nodes.on_change(listener)

    def reservation(self, uid: str) -> Reservation | None:
        """Return a live reservation."""
        promise = self._cluster.promise(uid)
        return None if promise is None else promise.reservation

    def objection(self, uid: str) -> str | None:
        """Return why what is reserved for a pod cannot be given to it any more."""
        promise = self._cluster.promise(uid)
        place = None if promise is None else self._cluster.places.get(promise.held.node)
        if promise is None or place is None:
            return "nothing is reserved for it"
        if (refusal := place.refusal()) is not None:
            return refusal
        devices = {} if place.usage is None else place.usage.devices
        for word, slots in promise.reservation.placement.slots.items():
            there = {each.device.uuid for each in devices.get(word, ())}
            for device in chain.from_iterable(slots):
                if device.uuid not in there:
                    return f"{device.uuid} is not there any more"
        return None

    def hold(self, uid: str, seconds: float) -> None:
        """Keep a reservation for *seconds* from now at least."""
        self._cluster.hold(uid, seconds)

    def written(self, uid: str) -> None:
        """Take note that a pod is bound: its reservation stays until the watch shows the same."""
        self._cluster.written(uid)

    def drop(self, uid: str) -> None:
        """Forget a reservation, if there is one."""
        self._cluster.drop_promise(uid)

    def drop_all(self) -> None:
        """Forget all reservations whose pods are not bound."""
        self._cluster.drop_promises()

    def usage(self) -> Iterator[NodeUsage]:
        """Return the nodes by which decisions are made; not to be kept or changed."""
        return (place.usage for place in self._cluster.places if place.usage is not None)

    def quotas(self) -> Iterator[QuotaFigure]:
        """Return what quotas count and allow."""
        return self._cluster.bounds.figures()

    def holdings(self) -> Iterator[PodFigure]:
        """Yield what each pod holds; the state may change meanwhile."""
        for place in tuple(self._cluster.places):
            for held in tuple(place.held.values()):
                if held.booking is None:
                    continue
                for word, uses in held.booking.uses.items():
                    for uuid, use in uses.items():
                        device = PodDevice(
                            uuid=uuid, type=word, memory_mib=use.memory_mib, cores=use.cores
                        )
                        yield PodFigure(
                            namespace=held.namespace, name=held.name, node=held.node, device=device
                        )
