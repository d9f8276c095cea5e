"""A cluster whose nodes are objects alone, with the slices of one shape at a time."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.config import kubeconfig
from tests.cluster.bench import bulk
from tests.cluster.bench.control_plane import CONTROLLERS, SCHEDULER, UNLIMITED, ControlPlane
from tests.cluster.bench.fleet import Shape, classes
from tests.cluster.bench.rounds import NAMESPACE, Round, claim, pod, watched_bindings
from tests.cluster.cluster import RealCluster
from tests.cluster.scenes.driver import apply_chart
from tests.cluster.scenes.restarts import KUBELET
from tests.cluster.virtual_nodes import node_object, status_of

_TIMEOUT_S: Final = 300.0


@dataclass(slots=True, kw_only=True)
class FleetCluster:
    """Grows to as many nodes as a measurement asks for."""

    cluster: RealCluster
    client: Client
    control_plane: ControlPlane
    uids: dict[str, str] = field(default_factory=dict)
    """Of the nodes by their names."""

    @classmethod
    def take(cls, cluster: RealCluster) -> "FleetCluster":
        """Take *cluster* over: its own node is of no use here, and neither are renewals."""
        client = Client(
            kubeconfig(str(cluster.kubeconfig)), user_agent="gpuslice-tests", timeout_s=_TIMEOUT_S
        )
        control_plane = ControlPlane(cluster=cluster)
        for name in (SCHEDULER, CONTROLLERS, KUBELET):
            control_plane.end(name)
        for name in bulk.names_in(client, paths.nodes()):
            client.delete(paths.nodes(name))
        apply_chart(client)
        bulk.create_all(client, paths.device_classes(), classes())
        namespace = {"kind": "Namespace", "metadata": {"name": NAMESPACE}}
        client.create(paths.namespaces(), namespace)
        account = {"kind": "ServiceAccount", "metadata": {"name": "default"}}
        client.create(paths.resource("v1", "serviceaccounts", namespace=NAMESPACE), account)
        return cls(cluster=cluster, client=client, control_plane=control_plane)

    def grow(self, count: int) -> None:
        """Have *count* nodes, all of them Ready."""
        wanted = [f"virtual-{number:04}" for number in range(len(self.uids), count)]
        bulk.for_each(wanted, self._add_node)

    def publish(self, shape: Shape) -> None:
        """Have the slices of *shape* and no others."""
        bulk.delete_all(self.client, paths.resource_slices())
        slices = [each for node, uid in self.uids.items() for each in shape.slices(node, uid)]
        bulk.create_all(self.client, paths.resource_slices(), slices)

    def play(self, shape: Shape, count: int, flags: Sequence[str] = UNLIMITED) -> Round:
        """Schedule *count* pods whose claims are there before, and clear them away."""
        names = [f"pod-{number:04}" for number in range(count)]
        claims = [claim(name, shape.claim_spec()) for name in names]
        bulk.create_all(self.client, paths.resource_claims(NAMESPACE), claims)
        pods = [pod(name, {"resourceClaimName": name}) for name in names]
        bulk.create_all(self.client, paths.pods(NAMESPACE), pods)
        return self._round(count, lambda: self.control_plane.start_scheduler(flags))

    def play_templates(self, shape: Shape, count: int, flags: Sequence[str]) -> Round:
        """Schedule *count* pods whose claims the controller makes meanwhile."""
        template = claim("gpu", shape.claim_spec(), template=True)
        templates = paths.resource_claim_templates(NAMESPACE)
        self.client.create(templates, template)
        names = [f"pod-{number:04}" for number in range(count)]
        pods = [pod(name, {"resourceClaimTemplateName": "gpu"}) for name in names]
        bulk.create_all(self.client, paths.pods(NAMESPACE), pods)

        def start() -> None:
            self.control_plane.start_scheduler(flags)
            self.control_plane.start_controllers(flags)

        played = self._round(count, start)
        self.client.delete(f"{templates}/gpu")
        return played

    def _round(self, count: int, start: Callable[[], None]) -> Round:
        """Take the times of *count* bindings after *start*; then end all and clear."""
        plane = self.control_plane
        with watched_bindings(self.client) as bindings:
            start()
            bindings.wait(1, _TIMEOUT_S)
            before_s = plane.cpu_s(SCHEDULER)
            seen_s = bindings.wait(count, _TIMEOUT_S)
        cpu_s = plane.cpu_s(SCHEDULER) - before_s
        for name in (SCHEDULER, CONTROLLERS):
            plane.end(name)
        self.clear()
        return Round(pods=count, took_s=seen_s[-1] - seen_s[0], scheduler_cpu_s=cpu_s)

    def clear(self) -> None:
        """Take away pods, claims and what was said of them."""
        for path in (
            paths.pods(NAMESPACE),
            paths.resource_claims(NAMESPACE),
            paths.resource("events.k8s.io/v1", "events", namespace=NAMESPACE),
        ):
            bulk.delete_all(self.client, path)

    def _add_node(self, name: str) -> None:
        since = "2026-01-01T00:00:00Z"
        body = node_object(name) | status_of(name, "10.0.0.1", since, since)
        made: dict[str, Any] = json.loads(self.client.create(paths.nodes(), body))
        self.uids[name] = made["metadata"]["uid"]
        # The API server taints every new node until a controller finds it well.
        self.client.patch(paths.nodes(name), {"spec": {"taints": None}}, content_type=MERGE_PATCH)
