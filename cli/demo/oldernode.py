"""The nodes of the demo's second scene: real node agents that serve kubelet's device plugin."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from cdi.enforcement import PRELOAD_PATH, REGION_PATH
from cdi.library import CONTAINER_LIBRARY_PATH
from cdi.regionstore import RegionStore
from cli.demo.agents import Agent
from gpu import names
from hami.devices import PodDevice
from kube import paths
from kube.client import Client
from kube.objects import JsonObject
from sim.cluster import Cluster
from sim.node import NodeSpec
from sim.runtime.container import ContainerView

NODES: Final[Mapping[str, str]] = {
    "older-a": "gpus: [{profile: a100-40gb, count: 2}]\n",
    "older-b": "gpus: [{profile: a10}]\n",
}
_FLAGS: Final[Mapping[str, object]] = {"--mode": "device-plugin", "--monitor-interval-s": "0.5"}
_GRANTED: Final = "gpuslice_share_memory_granted_bytes"
_MIB: Final = 1024 * 1024


def specs(directory: Path) -> list[NodeSpec]:
    """Return the nodes; what GPUs they have is written below *directory*."""
    found = []
    for name, text in NODES.items():
        path = directory / f"{name}.yaml"
        path.write_text(text)
        found.append(NodeSpec(name=name, gpus=path))
    return found


def start(cluster: Cluster, directory: Path) -> dict[str, Agent]:
    """Start the agent of each node."""
    return {
        name: Agent.start(cluster.node(name), cluster.kubeconfig, directory, more=_FLAGS)
        for name in NODES
    }


def stop(agents: Mapping[str, Agent]) -> None:
    """End the agents, and take away what they keep for containers that may start again."""
    for agent in agents.values():
        agent.program.stop()
        regions = agent.node.kubelet_root / "plugins" / names.DRIVER / "regions"
        store = RegionStore(regions, str(regions))
        for owner in store.owners():
            store.remove(owner)


def registered(client: Client, key: str) -> dict[str, int]:
    """Return the memory in MiB of each GPU that the nodes' annotations *key* name."""
    nodes: list[JsonObject] = json.loads(client.get(paths.nodes()))["items"]
    texts = (node["metadata"]["annotations"][key] for node in nodes)
    return {each["id"]: each["devmem"] for text in texts for each in json.loads(text)}


def container_of(agents: Mapping[str, Agent], pod: JsonObject) -> ContainerView | None:
    """Return the pod's only container as its process finds it."""
    agent = agents.get(pod["spec"].get("nodeName") or "")
    views = agent.node.containers() if agent else []
    return next((view for view in views if view.pod.uid == pod["metadata"]["uid"]), None)


def got(view: ContainerView) -> tuple[str, ...]:
    """Return what is worth to be seen of a container."""
    env = [f"{name}={view.env[name]}" for name in sorted(view.env) if "LIMIT" in name]
    region = [mount.container_path for mount in view.mounts if mount.container_path == REGION_PATH]
    return (*env, *region)


def differences(view: ContainerView | None, devices: Sequence[PodDevice]) -> Iterator[str]:
    """Yield what a container has not, or has otherwise, of its *devices*."""
    if view is None:
        yield "has no container"
        return
    visible = set(filter(None, view.env.get("NVIDIA_VISIBLE_DEVICES", "").split(",")))
    if visible != {device.uuid for device in devices}:
        yield f"sees {', '.join(sorted(visible)) or 'no GPU'}"
    for name, wanted in (
        ("CUDA_DEVICE_MEMORY_LIMIT_", [f"{device.memory_mib}m" for device in devices]),
        ("CUDA_DEVICE_SM_LIMIT_", [str(device.cores) for device in devices]),
    ):
        has = [value for key, value in view.env.items() if key.startswith(name)]
        if Counter(has) != Counter(wanted):
            yield f"has {name}* of {', '.join(has) or 'nothing'} and not {', '.join(wanted)}"
    mounted = {mount.container_path for mount in view.mounts}
    for path in (REGION_PATH, PRELOAD_PATH, CONTAINER_LIBRARY_PATH):
        if path not in mounted:
            yield f"has no {path}"


def measured(agent: Agent, pod: str, devices: Sequence[PodDevice], timeout_s: float) -> list[str]:
    """Wait until the monitor shows what *pod* was granted; return what it shows otherwise."""
    deadline_s = time.monotonic() + timeout_s
    wanted = {device.uuid: device.memory_mib for device in devices}
    while (shown := _granted_mib(agent.program.metrics(), pod)) != wanted:
        if time.monotonic() > deadline_s:
            return [f"is measured as {shown} and not {wanted}"]
        time.sleep(0.1)
    return []


def _granted_mib(text: str, pod: str) -> dict[str, int]:
    return {
        sample.labels["uuid"]: int(sample.value) // _MIB
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == _GRANTED and sample.labels["pod"] == pod
    }
