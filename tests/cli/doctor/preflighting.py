"""A stage for preflights: the simulated cluster with a real node agent, and a front before it."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cli.demo.agents import Agent
from cli.demo.scenes import manifests
from cli.doctor.cluster.view import Cluster as View
from cli.doctor.model import Finding
from cli.doctor.preflight.objects import END
from cli.doctor.preflight.preflights import Wish, preflights
from kube import paths
from kube.config import ClientConfig
from kube.draversions import VersionedClient
from sim.cluster import Cluster
from sim.node import NodeSpec
from tests.cli.doctor.front import Front, fronting, write_kubeconfig
from tests.cli.doctor.world import DAEMONSETS

NODE = "node-a"


@dataclass(slots=True)
class Stage:
    """A cluster with an agent, and a front before its API server."""

    cluster: Cluster
    front: Front
    agent: Agent
    directory: Path
    env: dict[str, str] = field(default_factory=dict)
    """What a container shows besides its own, or in its place."""

    @property
    def client(self) -> VersionedClient:
        """Return a client that goes through the front."""
        return VersionedClient(ClientConfig(host=self.front.url), user_agent="test")

    def log_of(self, name: str) -> str:
        """Return what the command of the pod's container would have printed."""
        for view in self.agent.node.containers():
            if view.pod.name == name:
                env = {**view.env, **self.env}
                return "\n".join([*(f"{key}={value}" for key, value in env.items()), END, ""])
        return ""

    def try_it(
        self,
        *nodes: str,
        image: str | None = "busybox",
        timeout_s: float = 20,
        clear_s: float = 45,
    ) -> Finding:
        """Return what a preflight on one node says."""
        view = View(self.client, namespace=None, trial_namespace="default")
        wish = Wish(
            image=image,
            nodes=nodes or (NODE,),
            timeout_s=timeout_s,
            clear_s=clear_s,
            kubeconfig=write_kubeconfig(self.directory / "config", self.front.url),
        )
        (finding,) = preflights(view, wish)
        return finding

    def left(self) -> list[str]:
        """Return the pods and claims that are there."""
        found = [paths.pods("default"), paths.resource_claims("default")]
        items = [each for path in found for each in json.loads(self.client.get(path))["items"]]
        return [str(each["metadata"]["name"]) for each in items]


@contextmanager
def staged(gpus: tuple[str, ...] = ("l4",), version: str = "1.37") -> Iterator[Stage]:
    """Run a cluster with one node and its agent."""
    with tempfile.TemporaryDirectory(prefix="g") as name:
        directory = Path(name)
        nodes = [NodeSpec(name=NODE, gpus=gpus)]
        with Cluster(directory / "c", nodes, version) as cluster:
            agent = Agent.start(cluster.node(NODE), cluster.kubeconfig, directory)
            try:
                agent.program.wait_ready(30)
                token = cluster.call(cluster.server.token_for, "admin")
                with fronting(cluster.server.url, token) as front:
                    front.serve(DAEMONSETS)
                    stage = Stage(cluster, front, agent, directory)
                    front.log_of = stage.log_of
                    for each in manifests("device-classes"):
                        stage.client.create(paths.device_classes(), each)
                    yield stage
            finally:
                agent.program.stop()
