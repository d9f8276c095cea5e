"""One pod in front of one cluster, with what answers about it are looked up in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from kube.objects import JsonObject
from sim.explain.holding import Holdings
from sim.explain.naming import Places, places_of
from sim.scheduler.allocator import Allocator, Cluster
from sim.scheduler.devices import Device, DeviceId
from sim.scheduler.extended import asked_of_classes, extended
from sim.scheduler.placement import Placed, Unplaced, View, place
from sim.scheduler.podclaims import PodClaims, claims_of
from sim.scheduler.usage import usage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is asked and what there is; make it by `case_of`."""

    pod: JsonObject
    view: View
    allocator: Allocator
    claims: PodClaims
    cluster: Cluster
    nodes: Mapping[str, JsonObject]
    holdings: Holdings
    places: Places
    _devices: dict[str, Mapping[DeviceId, Device]] = field(default_factory=dict)

    def placed(self) -> Placed | Unplaced:
        """Ask the scheduler's own rules."""
        return place(self.pod, self.view, self.allocator, usage=self.cluster.usage)

    def devices(self, node: str) -> Mapping[DeviceId, Device]:
        """Return the devices that the node of this name can reach, in published order."""
        if node not in self._devices:
            self._devices[node] = {
                device.id: device
                for pool in self.allocator.pools(self.nodes[node], self.cluster)
                for part in pool.slices
                for device in part.devices
            }
        return self._devices[node]


def case_of(pod: JsonObject, view: View, allocator: Allocator) -> Case:
    """Look up the claims of *pod*; raises `WaitingError` and `QuantityError`."""
    claims = claims_of(pod, view.claims)
    made = _made_for(pod, view, allocator)
    return Case(
        pod=pod,
        view=view,
        allocator=allocator,
        claims=claims,
        cluster=Cluster(
            slices=view.slices,
            classes=view.classes,
            usage=usage_of(view.claims.values()),
            rules=view.rules,
        ),
        nodes={str(node["metadata"]["name"]): node for node in view.nodes},
        holdings=Holdings(view.claims.values()),
        places=places_of((*claims.pending, *made)),
    )


def _made_for(pod: JsonObject, view: View, allocator: Allocator) -> tuple[JsonObject, ...]:
    """Return the claim that the scheduler would make for extended resources, if for any node."""
    if not allocator.features.extended_resources:
        return ()
    by_resource = asked_of_classes(pod, view.classes)
    made = (extended(pod, node, by_resource) for node in view.nodes) if by_resource else ()
    return tuple(islice((it.claim for it in made if it), 1))
