"""Which nodes have GPUs, by whatever says so: slices, our pods and annotations, others' labels."""

import json
from typing import Any, Final

from cli.doctor.cluster.view import (
    NODE_AGENT,
    Cluster,
    annotation,
    label,
    name_of,
    node_name,
)
from gpu.names import DRIVER
from hami.backends import NvidiaBackend
from kube import paths
from kube.errors import KubeError
from kube.objects import JsonObject

_NVIDIA: Final = NvidiaBackend(count_name="nvidia.com/gpu")
REGISTER: Final = _NVIDIA.register_key
HANDSHAKE: Final = _NVIDIA.handshake_key
_LABELS: Final = {
    "nvidia.com/gpu.present": "true",
    "gpu": "on",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-0302_10de.present": "true",
    "feature.node.kubernetes.io/pci-0300_10de.present": "true",
}


def own_slices(cluster: Cluster) -> list[JsonObject]:
    """Return the slices of our driver; raises `KubeError`."""
    return [each for each in cluster.items(paths.resource_slices()) if driver_of(each) == DRIVER]


def driver_of(each: JsonObject) -> str:
    """Return the driver of a slice."""
    return str((each.get("spec") or {}).get("driver", ""))


def slice_node(each: JsonObject) -> str:
    """Return the node of a slice, empty where it has none."""
    return str((each.get("spec") or {}).get("nodeName") or "")


def slice_nodes(cluster: Cluster) -> set[str]:
    """Return the nodes with slices of ours, as far as they can be seen."""
    try:
        return {slice_node(each) for each in own_slices(cluster)} - {""}
    except KubeError:
        return set()


def agent_nodes(cluster: Cluster) -> set[str]:
    """Return the nodes with an agent of ours, ready or not, as far as they can be seen."""
    try:
        return {node_name(pod) for pod in cluster.own_pods(NODE_AGENT)} - {""}
    except KubeError:
        return set()


def labelled_nodes(cluster: Cluster) -> set[str]:
    """Return the nodes of which others say that they have NVIDIA GPUs; raises `KubeError`."""
    nodes = cluster.items(paths.nodes())
    return {
        name_of(node)
        for node in nodes
        if any(label(node, key) == value for key, value in _LABELS.items())
    }


def registered_devices(node: JsonObject) -> int | None:
    """Return how many GPUs the node's annotation names, `None` where there is none."""
    text = annotation(node, REGISTER)
    if not text:
        return None
    try:
        found: Any = json.loads(text)
    except ValueError:
        # The older form ends each device with a colon.
        return text.count(":")
    return len(found) if isinstance(found, list) else 0


def gpu_nodes(cluster: Cluster) -> set[str]:
    """Return all nodes that are known to have GPUs; raises `KubeError`."""
    registered = {
        name_of(node) for node in cluster.items(paths.nodes()) if registered_devices(node)
    }
    return labelled_nodes(cluster) | slice_nodes(cluster) | agent_nodes(cluster) | registered
