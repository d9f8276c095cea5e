"""The Node object that a kubelet makes of itself."""

from collections.abc import Mapping
from pathlib import Path

from kube.objects import JsonObject
from sim.apiserver.api import Api
from sim.apiserver.errors import StatusError
from sim.kubelet.events import now


async def register_node(api: Api, node: JsonObject) -> None:
    """Create the node, or bring the labels and the status of an existing one up to date."""
    name = node["metadata"]["name"]
    try:
        await api.create("nodes", node)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
        await api.patch("nodes", name, {"metadata": {"labels": node["metadata"]["labels"]}})
    await api.patch("nodes", name, {"status": node["status"]}, subresource="status")


def node_object(
    name: str, *, labels: Mapping[str, str], root: Path, git_version: str, host_ip: str
) -> JsonObject:
    """Return a ready node whose boot id is the one in its *root*."""
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "250", "ephemeral-storage": "1Ti"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**_own_labels(name), **labels}},
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [
                {"type": "InternalIP", "address": host_ip},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [_ready()],
            "nodeInfo": _info(name, _boot_id(root), git_version),
        },
    }


def _own_labels(name: str) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }


def _ready() -> JsonObject:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": now(),
        "lastTransitionTime": now(),
    }


def _info(name: str, boot_id: str, git_version: str) -> JsonObject:
    return {
        "machineID": name,
        "systemUUID": name,
        "bootID": boot_id,
        "kernelVersion": "6.12.0",
        "osImage": "simulated",
        "containerRuntimeVersion": "sim://1.0.0",
        "kubeletVersion": git_version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _boot_id(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
