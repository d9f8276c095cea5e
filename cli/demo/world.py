"""Starts the simulated cluster and the real agents, and applies the examples to it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.demo.agents import Agent
from cli.demo.checking import Evidence
from cli.demo.reading import PodState, Reader, granted_mib
from cli.demo.scenes import CLASSES, NODES, SCENES, Scene, manifests, pod_wishes
from cli.demo.webhook import NAMESPACE, Webhook
from gpu import names
from kube import paths
from kube.client import Client
from kube.config import load_config
from kube.objects import JsonObject
from sim.cluster import Cluster
from sim.node import NodeSpec
from webhook.templatecontent import is_template_name

_ADMISSION = "admissionregistration.k8s.io/v1"
START_TIMEOUT_S = 20.0
SCENE_TIMEOUT_S = 20.0

Progress = Callable[[str], None]


class NotSettledError(Exception):
    """Pods did not come to where they should; says which and how far they are."""


@dataclass(slots=True)
class World:
    """A running cluster with agents."""

    cluster: Cluster
    agents: dict[str, Agent]
    webhook: Webhook
    client: Client
    is_asking: bool = False
    """The API server asks the webhook."""

    def ask_webhook(self) -> None:
        """Let the API server ask the webhook from now on, once it is ready."""
        if self.is_asking:
            return
        self.webhook.program.wait_ready(START_TIMEOUT_S)
        for each in self.webhook.configurations():
            self.client.create(_collection(each), each)
        self.is_asking = True

    def apply(self, scene: Scene) -> None:
        """Create the objects of *scene* and wait until each pod runs, or waits with a reason."""
        for each in manifests(scene.folder):
            self.client.create(_collection(each), each)
        pod_names = [wish.name for wish in pod_wishes(scene)]
        reader = Reader(self.client)
        deadline = time.monotonic() + SCENE_TIMEOUT_S
        while True:
            pods = reader.pods()
            if all(_settled(pods.get(name), fits=scene.fits) for name in pod_names):
                return
            if time.monotonic() > deadline:
                states = [f"{name}: {pods.get(name)}" for name in pod_names]
                raise NotSettledError("; ".join(states))
            time.sleep(0.05)

    def release(self) -> list[str]:
        """Delete all pods, wait until they are gone, and return what is left of them."""
        reader = Reader(self.client)
        for name in reader.pods():
            self.client.delete(paths.pods("default", name))
        deadline = time.monotonic() + SCENE_TIMEOUT_S
        while left := list(_still_there(reader)):
            if time.monotonic() > deadline:
                return left
            time.sleep(0.05)
        return [each for agent in self.agents.values() for each in _leftovers(agent)]

    def evidence(self) -> list[Evidence]:
        """Read everything back and return it by pod, in the order of the scenes."""
        reader = Reader(self.client)
        devices, given, pods = reader.devices(), reader.given(), reader.pods()
        templates = reader.templates()
        granted: dict[str, int] = {}
        for agent in self.agents.values():
            granted |= granted_mib(agent.program.metrics())
        containers = {
            view.pod.uid: view for agent in self.agents.values() for view in agent.node.containers()
        }
        found = []
        for wish in (each for scene in SCENES for each in pod_wishes(scene)):
            state = pods[wish.name]
            found.append(
                Evidence(
                    wish=wish,
                    state=state,
                    given=tuple(each for each in given if each.claim in state.claims),
                    devices=devices,
                    container=containers.get(state.uid),
                    claims=tuple(templates[name] for name in state.templates if name in templates),
                    granted_mib=next(
                        (granted[claim] for claim in state.claims if claim in granted), None
                    ),
                )
            )
        return found


@contextmanager
def running(directory: Path, say: Progress) -> Iterator[World]:
    """Run cluster and agents below *directory* for the length of the block."""
    say("starting a cluster of two nodes")
    gpu_files = {name: directory / f"{name}.yaml" for name in NODES}
    for name, path in gpu_files.items():
        path.write_text(NODES[name])
    nodes = [NodeSpec(name=name, gpus=path) for name, path in gpu_files.items()]
    with Cluster(directory / "c", nodes) as cluster:
        client = Client(load_config(str(cluster.kubeconfig)), user_agent="gpuslice-demo")
        agents: dict[str, Agent] = {}
        webhook: Webhook | None = None
        try:
            for name in NODES:
                say(f"starting the node agent of {name}")
                agents[name] = Agent.start(cluster.node(name), cluster.kubeconfig, directory)
            say("starting the webhook")
            client.create(paths.namespaces(), {"metadata": {"name": NAMESPACE}})
            webhook = Webhook(cluster.kubeconfig, directory)
            for each in manifests(CLASSES):
                client.create(_collection(each), each)
            for agent in agents.values():
                agent.program.wait_ready(START_TIMEOUT_S)
            world = World(cluster=cluster, agents=agents, webhook=webhook, client=client)
            try:
                yield world
            finally:
                # Containers that still run would leave their regions mounted.
                world.release()
        finally:
            programs = [agent.program for agent in agents.values()]
            for program in [*programs, *(() if webhook is None else (webhook.program,))]:
                program.stop()
            client.close()


def _still_there(reader: Reader) -> Iterator[str]:
    """Yield what must go with the pods; templates of the examples are not among it."""
    yield from (f"pod {name} is still there" for name in reader.pods())
    yield from (f"claim {name} is still there" for name in reader.claims())
    ours = (name for name in reader.templates() if is_template_name(name))
    yield from (f"template {name} is still there" for name in ours)


def _leftovers(agent: Agent) -> Iterator[str]:
    node = agent.node
    for path in node.cdi_dir.iterdir():
        yield f"CDI spec {path.name} is left on {node.name}"
    for path in (node.kubelet_root / "plugins" / names.DRIVER / "regions").iterdir():
        yield f"region {path.name} is left on {node.name}"
    for claim, memory_mib in granted_mib(agent.program.metrics()).items():
        yield f"the agent of {node.name} still grants {memory_mib} MiB to claim {claim}"


def _collection(each: JsonObject) -> str:
    match each["kind"]:
        case "DeviceClass":
            return paths.device_classes()
        case "ResourceClaimTemplate":
            return paths.resource_claim_templates("default")
        case "Pod":
            return paths.pods("default")
        case "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" as kind:
            return paths.resource(_ADMISSION, f"{kind.lower()}s")
        case other:
            message = f"the demo does not know how to create a {other}"
            raise ValueError(message)


def _settled(pod: PodState | None, *, fits: bool) -> bool:
    if pod is None:
        return False
    return pod.phase == "Running" if fits else bool(pod.why_pending)
