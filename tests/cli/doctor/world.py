"""A simulated API server behind a front, and objects as a cluster with the chart has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cli.doctor.cluster.checks import CHECKS
from cli.doctor.cluster.classes import SELECTORS
from cli.doctor.cluster.view import Cluster
from cli.doctor.model import Half, Verdict
from cli.doctor.running import run
from gpu.names import DRIVER
from kube import paths
from kube.config import ClientConfig
from kube.draversions import VersionedClient
from tests.cli.doctor.front import Front, fronting
from tests.fakes.api_server import ServerThread, serving

Json = dict[str, Any]
SYSTEM = "gpuslice-system"
DAEMONSETS = "/apis/apps/v1/daemonsets"
_NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion"),
    *("operatingSystem", "architecture"),
)
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@dataclass(slots=True)
class World:
    """A cluster to ask."""

    server: ServerThread
    front: Front

    def cluster(self, *, namespace: str | None = None) -> Cluster:
        """Return a fresh view of it."""
        client = VersionedClient(ClientConfig(host=self.front.url), user_agent="test")
        return Cluster(client, namespace=namespace, trial_namespace="default")

    def verdict(self, check: str) -> Verdict:
        """Return what the check with this id says now."""
        (chosen,) = [each for each in CHECKS if each.id == check]
        (finding,) = run([chosen], self.cluster(), Half.CLUSTER)
        return finding.verdict

    def put(self, collection: str, *objects: Json) -> None:
        """Create objects on the simulated server."""
        client = self.cluster().client
        for each in objects:
            client.create(collection, each)
        client.close()


@contextmanager
def world(version: str = "1.37", *, gates: frozenset[str] | None = None) -> Iterator[World]:
    """Run a server that acts as *version*, with other *gates* than the release's if given."""
    with serving(version) as server:
        if gates is not None:
            server.call(server.server.set_version, version, gates=gates)
        token = server.call(server.server.token_for, "admin")
        with fronting(server.server.url, token) as front:
            front.serve(DAEMONSETS).serve(POLICIES)
            yield World(server, front)


def node(
    name: str,
    *,
    kubelet: str = "v1.37.1",
    runtime: str = "containerd://2.1.0",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
) -> Json:
    """Return a node."""
    info = dict.fromkeys(_NODE_INFO, "x")
    info |= {"kubeletVersion": kubelet, "containerRuntimeVersion": runtime}
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    status = {"nodeInfo": info, "allocatable": allocatable or {}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def published(
    node_name: str, *, mode: str = "shared", driver: str = DRIVER, count: int = 1, **device: Any
) -> Json:
    """Return a slice with one device; *count* is how many slices its pool is said to have."""
    attributes = {"mode": {"string": mode}}
    devices = [{"name": "gpu-0", "attributes": attributes, **device}]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": driver, "nodeName": node_name, "pool": pool, "devices": devices}
    metadata = {"name": f"{node_name}-{driver}"}
    version = "resource.k8s.io/v1"
    return {"apiVersion": version, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def part(
    component: str, name: str, *, on: str = "a", ready: bool = True, args: tuple[str, ...] = ()
) -> Json:
    """Return a pod of ours."""
    labels = {"app.kubernetes.io/name": "gpuslice", "app.kubernetes.io/component": component}
    metadata = {"name": name, "namespace": SYSTEM, "labels": labels}
    container = {"name": component, "image": "gpuslice:1", "args": [*args]}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": "Running", "conditions": conditions},
    }


def pods(front: Front, *objects: Json) -> None:
    """Have the cluster show these pods of all namespaces."""
    front.serve("/api/v1/pods", *objects)


def daemonset(
    name: str, image: str, *, scheduled: int = 1, labels: dict[str, str] | None = None
) -> Json:
    """Return a DaemonSet."""
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "metadata": {"name": name, "namespace": "gpu", "labels": labels or {}},
        "spec": {"template": template},
        "status": {"desiredNumberScheduled": scheduled},
    }


def classes() -> list[Json]:
    """Return our DeviceClasses."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": text}}]},
        }
        for name, text in SELECTORS.items()
    ]


def claim(name: str, *, on: str, driver: str = DRIVER, **metadata: Any) -> Json:
    """Return an allocated claim."""
    result = {"request": "gpu", "driver": driver, "pool": on, "device": "gpu-0"}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "share.gpuslice.io"}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def ago(**span: float) -> str:
    """Return the time that was so long ago, as objects have it."""
    return (datetime.now(UTC) - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


NODES = paths.nodes()
SLICES = paths.resource_slices()
CLASSES = paths.device_classes()
CLAIMS = paths.resource_claims()
TEMPLATES = paths.resource_claim_templates()
