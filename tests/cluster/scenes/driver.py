"""The driver on a real cluster: a node agent for each node, with what the chart gives it."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from gpu import names
from kube import paths
from kube.client import Client
from kube.config import in_cluster_config
from kube.errors import ConflictError
from sim import driverroot, gpufile, hardware
from tests.cluster.cluster import REPOSITORY, RealCluster
from tests.cluster.scenes.agents import NAMESPACE, STOP_S, Agent, lay_out, port_of, start_agent
from tests.patience import eventually

MANIFESTS: Final = REPOSITORY / "manifests"
"""What the chart renders."""
_CLASSES: Final = MANIFESTS / "dra" / "classes.yaml"
_RIGHTS: Final = tuple(
    MANIFESTS / "dra" / "node-agent" / f"{each}.yaml"
    for each in ("rbac", "own-slices", "own-status")
)
_OF_OLDER: Final = MANIFESTS / "hami" / "node-agent" / "own-node.yaml"

GPUS: Final[tuple[tuple[Mapping[str, Any], ...], ...]] = (
    (
        {"profile": "t4"},
        {"profile": "a10"},
        {"profile": "l4"},
        {"profile": "h100-80gb"},
        {"profile": "a100-80gb", "mig": ["3g.40gb", "1g.10gb", "1g.10gb"]},
    ),
    ({"profile": "a10"}, {"profile": "a30"}),
    ({"profile": "h200-141gb"},),
)


@dataclass(slots=True, kw_only=True)
class Driver:
    """All agents of a cluster."""

    cluster: RealCluster
    agents: dict[str, Agent] = field(default_factory=dict)

    @property
    def first(self) -> Agent:
        """Return the agent of the node with a kubelet."""
        return self.agents[self.cluster.node_names[0]]

    def log(self, node: str) -> str:
        """Return all that the agent of *node* has logged."""
        return self.cluster.log(f"agent-{node}").read_text(errors="replace")

    def specs(self) -> list[Path]:
        """Return the CDI specs that are there on the node with a kubelet."""
        return sorted(self.cluster.outside(self.first.cdi_folder).glob("*.json"))

    def regions(self) -> list[Path]:
        """Return the usage regions that are there on the node with a kubelet."""
        plugin = self.cluster.kubelet_root / "plugins" / names.DRIVER
        return sorted(self.cluster.outside(plugin / "regions").iterdir())

    def capabilities(self, uuid: str) -> frozenset[int]:
        """Return the minors of what opens the MIG device *uuid* of the first node."""
        (found,) = (
            (gpu, each)
            for gpu in hardware.gpus(gpufile.load(self.first.gpus))
            for each in gpu.mig
            if each.uuid == uuid
        )
        gpu, mig = found
        instance = partial(
            driverroot.cap_minor, gpu_minor=gpu.minor, gpu_instance=mig.gpu_instance_id
        )
        return frozenset({instance(), instance(compute_instance=mig.compute_instance_id)})

    def start_first(
        self, *, pod_uid: str | None = None, flags: Mapping[str, object] | None = None
    ) -> Agent:
        """Start the agent of the node with a kubelet, which has ended, and wait until it serves.

        It is of the same pod unless *pod_uid* says otherwise.
        """
        self._start_first(pod_uid=pod_uid, flags=flags)
        eventually(self.first.ready)
        return self.first

    def start_doomed(self) -> None:
        """Start it like that, and wait until it serves or is dead."""
        self._start_first(pod_uid=None, flags=None)
        eventually(lambda: not self.first.running() or self.first.ready())

    def start_second(self) -> Agent:
        """Start another agent beside that of the node with a kubelet, whose place it takes."""
        old = self.first
        self.agents[old.node] = start_agent(
            self.cluster, old.host, second=old.port == port_of(old.host)
        )
        eventually(self.first.ready)
        return self.first

    @contextlib.contextmanager
    def first_away(self, *, flags: Mapping[str, object] | None = None) -> Iterator[None]:
        """Do without the agent of the node with a kubelet for the block; then start it again."""
        self.first.terminate()
        try:
            yield
        finally:
            self.start_first(flags=flags)

    def repair(self) -> None:
        """Have an agent again where a scene has failed before it had."""
        self.first.live_on()
        self.first.shift_clock(0)
        self.first.resume()
        if not self.first.running():
            self.start_first()

    def client_of(self, node: str) -> Client:
        """Return a client with the very token that the agent of *node* uses."""
        config = in_cluster_config(
            self.agents[node].identity, self.cluster.in_cluster_environment()
        )
        return Client(config, user_agent="gpuslice-tests")

    def restart_first(self) -> None:
        """End the agent of the node with a kubelet as a node would, and start it again."""
        with self.first_away():
            pass

    def _start_first(self, *, pod_uid: str | None, flags: Mapping[str, object] | None) -> None:
        before = self.first
        assert not before.running(), "the agent before it still runs"
        self.agents[before.node] = start_agent(
            self.cluster, before.host, pod_uid=pod_uid or before.pod_uid, flags=flags
        )


@contextlib.contextmanager
def running_driver(cluster: RealCluster) -> Iterator[Driver]:
    """Run the agents of all nodes for the block."""
    driver = Driver(cluster=cluster)
    try:
        # Left before the block: the thread has other tests to run than those on the cluster.
        with cluster.client() as client:
            apply_chart(client)
            for index, node in enumerate(cluster.node_names):
                host = lay_out(cluster, index, node, GPUS[index % len(GPUS)])
                driver.agents[node] = start_agent(cluster, host)
            eventually(driver.first.ready)
            for node, agent in driver.agents.items():
                eventually(partial(_offers, client, node, agent))
        yield driver
    finally:
        for agent in driver.agents.values():
            agent.process.terminate()
        for agent in driver.agents.values():
            agent.process.wait(STOP_S)


def apply_chart(client: Client) -> None:
    """Create what an administrator applies before the agents: rights, policy and classes."""
    apply_rights(client)
    _apply(client, _CLASSES)


def apply_rights(client: Client) -> None:
    """Create the part of it that every release takes."""
    _create(client, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}, "kind": "Namespace"})
    _apply(client, *_RIGHTS, _OF_OLDER)


def _apply(client: Client, *files: Path) -> None:
    for path in files:
        for each in yaml.safe_load_all(path.read_text()):
            _create(client, collection_of(each), each)


def collection_of(manifest: Mapping[str, Any]) -> str:
    """Return the path of the collection of an object from a manifest."""
    plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
        manifest["kind"],
        f"{manifest['kind'].lower()}{'es' if manifest['kind'][-1] == 's' else 's'}",
    )
    namespace = manifest["metadata"].get("namespace")
    return paths.resource(str(manifest["apiVersion"]), plural, namespace=namespace)


def devices_of(client: Client, node: str) -> list[dict[str, Any]]:
    """Return the devices that *node* offers now."""
    slices = json.loads(client.get(paths.resource_slices()))["items"]
    own = [
        each["spec"]
        for each in slices
        if each["spec"].get("nodeName") == node and each["spec"]["driver"] == names.DRIVER
    ]
    return [device for spec in own for device in spec.get("devices") or ()]


def _offers(client: Client, node: str, agent: Agent) -> bool:
    """Tell whether *node* offers devices; an agent without a kubelet is never ready."""
    assert agent.running(), f"the agent of {node} has ended"
    return bool(devices_of(client, node))


def _create(client: Client, path: str, body: dict[str, Any]) -> None:
    with contextlib.suppress(ConflictError):
        client.create(path, body)
