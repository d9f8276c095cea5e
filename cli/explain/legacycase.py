"""A legacy pod in front of a cluster: the extender's own state and fit, fed by objects at rest.

The cluster is looked at as by an extender that has run for a while: what it would only believe in
the first minute after a node appears does not count.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from extender.fitting import ENDLESS, QuotaRoom, fit_node
from extender.model import Ask, Misfit, NodeUsage, Placement, Policies
from extender.state.cluster import Cluster
from extender.state.feeding import resource_names
from extender.state.places import NOT_REGISTERED, Place
from extender.state.reading import pod_reader, read_node, read_quota
from hami import handshake, preference_reading
from hami.deviceconfig import DeviceConfig
from hami.requests import Valid
from kube.objects import JsonObject
from kube.store import UnwantedError
from sim.explain.snapshot import Snapshot
from sim.scheduler.nodefilter import unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyCase:
    """What is asked and what there is; make it by `case_of`."""

    pod: JsonObject
    ask: Ask
    config: DeviceConfig
    policies: Policies
    cluster: Cluster
    nodes: Mapping[str, JsonObject]
    pods: tuple[JsonObject, ...]

    def place(self, node: str) -> Place:
        """Return what is known of a node that there is."""
        return self.cluster.places.get(node) or Place(name=node)

    def refusal(self, node: str) -> str:
        """Return why no device of a node can be had, whatever is asked."""
        return self.place(node).refusal() or ""

    def barred(self, node: str, *, pod: JsonObject | None = None) -> str:
        """Return why the pod may not run on a node, devices apart, in kube-scheduler's words."""
        return self.barred_from(self.nodes[node], pod=pod)

    def barred_from(self, node: JsonObject, *, pod: JsonObject | None = None) -> str:
        """Return the same of a node that is not as it was read."""
        uncounted = resource_names(self.config)
        return unfit(pod or self.pod, node, self.pods, uncounted=uncounted)

    def fit(self, node: str, ask: Ask | None = None) -> Placement | Misfit | None:
        """Return where the pod goes on a node, or why not; nothing for a node without devices."""
        usage = self.place(node).usage
        if usage is None or self.refusal(node):
            return None
        return self.fit_on(usage, ask or self.ask)

    def fit_on(self, usage: NodeUsage, ask: Ask) -> Placement | Misfit:
        """Return the same of a node as it is given."""
        room = self.cluster.room(ask.namespace)
        left: QuotaRoom = ENDLESS if room.is_endless else room
        return fit_node(usage, ask, self.config, self.policies, left)

    def takes(self, node: str, ask: Ask | None = None) -> bool:
        """Tell whether the pod fits on a node."""
        return isinstance(self.fit(node, ask), Placement)

    @contextmanager
    def without(self, uid: str) -> Iterator[None]:
        """Take away for a moment what a pod has."""
        lifted = self.cluster.lift(uid)
        try:
            yield
        finally:
            self.cluster.put_back(uid, lifted)


def case_of(
    pod: JsonObject,
    valid: Valid,
    config: DeviceConfig,
    cluster: Cluster,
    snapshot: Snapshot,
) -> LegacyCase:
    """Put *pod*, which asks for *valid*, before *cluster*, which holds nothing for it."""
    ask = ask_of(pod, valid)
    cluster.lift(ask.uid)
    return LegacyCase(
        pod=pod,
        ask=ask,
        config=config,
        policies=Policies(),
        cluster=cluster,
        nodes={str(node["metadata"]["name"]): node for node in snapshot.nodes},
        pods=tuple(snapshot.pods.values()),
    )


def cluster_of(
    snapshot: Snapshot, quotas: Iterable[JsonObject], config: DeviceConfig, now: datetime
) -> Cluster:
    """Return the state of an extender that has seen these objects for longer than a minute."""
    moment = now - handshake.PATIENCE
    cluster = Cluster(config, wall=lambda: moment)
    for quota in quotas:
        cluster.put_quota(read_quota(quota))
    for node in snapshot.nodes:
        cluster.put_node(read_node(node))
    moment = now
    for node in snapshot.nodes:
        cluster.put_node(read_node(node))
    read = pod_reader(resource_names(config), [each.count_name for each in cluster.backends])
    for pod in snapshot.pods.values():
        try:
            cluster.put_pod(read(pod))
        except UnwantedError:
            continue
    return cluster


def ask_of(pod: JsonObject, valid: Valid) -> Ask:
    """Return what *pod* asks."""
    metadata = pod["metadata"]
    texts = preference_reading.annotations_of(pod).items()
    return Ask(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        valid=valid,
        annotations={key: value for key, value in texts if isinstance(value, str)},
    )


def is_unregistered(refusal: str) -> bool:
    """Tell whether a node's refusal is that it has no devices at all."""
    return refusal == NOT_REGISTERED


def narrowed(ask: Ask, valid: Valid) -> Ask:
    """Return *ask* with other requests."""
    return replace(ask, valid=valid)
