"""A pod asks for a MIG device, from admission by the extender to the end of its instance."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from cli.demo.agents import Agent
from cli.demo.older import configuration
from cli.demo.programs import Program, free_port
from kube import paths
from kube.client import Client
from kube.config import load_config
from kube.errors import NotFoundError
from sim.cluster import Cluster
from sim.instancestore import InstanceStore, Made
from sim.node import NodeHandle, NodeSpec
from sim.runtime.container import ContainerView
from tests.hami.chartconfig import chart_config
from tests.patience import eventually

NODE = "mig-a"
GPUS = "gpus: [{profile: a100-40gb, mig: []}, {profile: a100-40gb}]\n"
ALLOWED = [{"models": ["A100-SXM4-40GB"], "profiles": ["1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"]}]
ALLOCATIONS = "hami.io/vgpu-mig-allocations"
REGISTERED = "hami.io/node-nvidia-register"


@dataclass
class Scene:
    """A cluster with one node, on which instances are made on demand."""

    client: Client
    node: NodeHandle
    directory: Path
    kubeconfig: Path
    flags: dict[str, object]
    agent: Agent | None = None

    def start(self) -> None:
        """Start the node's agent."""
        self.agent = Agent.start(self.node, self.kubeconfig, self.directory, more=self.flags)

    def stop(self) -> None:
        """End the node's agent."""
        if self.agent is not None:
            self.agent.program.stop()

    def made(self) -> tuple[Made, ...]:
        """Return the instances that are there."""
        return InstanceStore(self.node.gpus_file).read()

    def is_offered(self) -> bool:
        """Tell whether scheduler and kubelet know the node's cards."""
        found = json.loads(self.client.get(paths.nodes(NODE)))
        cards = json.loads((found["metadata"].get("annotations") or {}).get(REGISTERED, "[]"))
        allocatable = found["status"].get("allocatable", {}).get("nvidia.com/gpu", "0")
        return bool(cards) and allocatable != "0"

    def run(self, name: str, memory_mib: int) -> tuple[dict[str, Any], ContainerView]:
        """Create a pod that asks for a MIG device; return it and its container."""
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory_mib)}
        container = {"name": "app", "image": "cuda", "resources": {"limits": limits}}
        self.client.create(
            paths.pods("default"),
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "annotations": {"nvidia.com/vgpu-mode": "mig"}},
                "spec": {"schedulerName": "hami-scheduler", "containers": [container]},
            },
        )
        eventually(lambda: self.pod(name).get("status", {}).get("phase") == "Running")
        found = self.pod(name)
        views = (view for view in self.node.containers() if view.pod.name == name)
        return found, next(views)

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod."""
        return dict(json.loads(self.client.get(paths.pods("default", name))))

    def delete(self, name: str) -> None:
        """Delete a pod and wait until it is gone."""
        self.client.delete(paths.pods("default", name))

        def is_gone() -> bool:
            try:
                self.pod(name)
            except NotFoundError:
                return True
            return False

        eventually(is_gone)


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Yield a cluster of which the agent answers in the form that the test asks for."""
    # The path of a socket must be short, which pytest's directories are not.
    with TemporaryDirectory(prefix="gs-") as name:
        yield from _scene(Path(name), request.param)


def _scene(directory: Path, form: str) -> Iterator[Scene]:
    gpus, config = directory / "gpus.yaml", directory / "device-config.yaml"
    modes = directory / "config.json"
    gpus.write_text(GPUS, encoding="utf-8")
    config.write_text(chart_config(migProfileAllowlist=ALLOWED), encoding="utf-8")
    modes.write_text(json.dumps({"nodeconfig": [{"name": NODE, "operatingmode": "mig"}]}))
    port = free_port()
    with ExitStack() as stack:
        cluster = stack.enter_context(
            Cluster(
                directory / "cluster",
                [NodeSpec(name=NODE, gpus=gpus)],
                "1.34",
                schedulers=[configuration(f"http://127.0.0.1:{port}")],
            )
        )
        extender = Program.start(
            "the extender",
            ["extender", "--no-leader-elect"],
            {"--kubeconfig": cluster.kubeconfig, "--port": port, "--device-config": config},
            directory / "extender.log",
            probes="metrics",
        )
        stack.callback(extender.stop)
        client = Client(load_config(str(cluster.kubeconfig)), user_agent="test")
        stack.callback(client.close)
        flags = {
            "--mode": "device-plugin",
            "--device-config": config,
            "--node-config": modes,
            "--device-list-strategy": form,
        }
        found = Scene(client, cluster.node(NODE), directory, cluster.kubeconfig, flags)
        found.start()
        stack.callback(found.stop)
        extender.wait_ready(30)
        eventually(found.is_offered)
        yield found


@pytest.mark.parametrize("scene", ["envvar"], indirect=True)
def test_a_pod_gets_an_instance_for_as_long_as_it_lives(scene: Scene) -> None:
    """It lies where the scheduler said, outlives the agent, and is gone after the pod."""
    pod, view = scene.run("one", 15000)
    (made,) = scene.made()
    assert (made.profile, made.start) == ("3g.20gb", 4)
    assert view.env["NVIDIA_VISIBLE_DEVICES"] == made.uuid
    assert not [name for name in view.env if "LIMIT" in name]
    (told,) = json.loads(pod["metadata"]["annotations"][ALLOCATIONS])
    assert told["gpuUUID"] == made.gpu
    assert told["placement"] == {"start": 4, "size": 4}
    assert told["migUUID"] == made.uuid
    assert (told["gpuInstanceID"], told["computeInstanceID"]) == (made.gpu_instance_id, 0)
    scene.stop()
    scene.start()
    _, second = scene.run("two", 4000)
    assert {each.uuid for each in scene.made()} == {
        made.uuid,
        second.env["NVIDIA_VISIBLE_DEVICES"],
    }
    scene.delete("one")
    eventually(lambda: [each.profile for each in scene.made()] == ["1g.5gb"])


@pytest.mark.parametrize("scene", ["cdi-cri"], indirect=True)
def test_the_runtime_finds_the_device_files_of_a_new_instance(scene: Scene) -> None:
    """The CDI spec has it by the time kubelet is answered."""
    pod, view = scene.run("one", 4000)
    (told,) = json.loads(pod["metadata"]["annotations"][ALLOCATIONS])
    paths_there = {each.path for each in view.devices}
    assert "/dev/nvidia0" in paths_there
    assert len([each for each in paths_there if each.startswith("/dev/nvidia-caps/")]) == 2
    (made,) = scene.made()
    assert told["migUUID"] == made.uuid
