"""Nodes without a kubelet: Node objects whose Lease and Ready condition are renewed.

The scheduler looks at Node objects alone, so that a choice of nodes needs no further kubelets;
pods bound to one of these stay Pending. A node's Lease is good for 40 s and its status for longer
(node lifecycle controller), hence the pace. Run as `python -m tests.cluster.virtual_nodes
KUBECONFIG NAME=ADDRESS...` inside the cluster's network; it ends with the cluster.
"""

import datetime as dt
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import structlog

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.config import kubeconfig
from kube.errors import ConflictError, KubeError, NotFoundError

log = structlog.get_logger(__name__)

_EVERY_S: Final = 10.0
_RETRY_S: Final = 1.0
_LEASE_S: Final = 40
_NAMESPACE: Final = "kube-node-lease"


def node_object(name: str) -> dict[str, Any]:
    """Return the Node as a kubelet would register it."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "gpuslice.test/virtual": "",
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def status_of(name: str, address: str, now: str, since: str) -> dict[str, Any]:
    """Return the status of a node that is well *since* then and has room for many pods."""
    resources = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "VirtualNode",
        "message": "renewed without a kubelet",
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
    }
    return {
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [condition],
        }
    }


def lease_object(name: str, now: str) -> dict[str, Any]:
    """Return the Lease that says that the node lives."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": _LEASE_S, "renewTime": now},
    }


def renew(client: Client, name: str, address: str, since: str) -> None:
    """Renew one node's Lease and status, made first where they are not there."""
    now = dt.datetime.now(dt.UTC)
    lease = lease_object(name, now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    try:
        client.patch(
            paths.leases(_NAMESPACE, name), {"spec": lease["spec"]}, content_type=MERGE_PATCH
        )
    except NotFoundError:
        _create(client, paths.nodes(), node_object(name))
        _create(client, paths.leases(_NAMESPACE), lease)
    status = status_of(name, address, seconds(now), since)
    client.patch(paths.nodes(name, "status"), status, content_type=MERGE_PATCH)


def seconds(moment: dt.datetime) -> str:
    """Return *moment* as Kubernetes writes the times of conditions."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _create(client: Client, path: str, body: dict[str, Any]) -> None:
    try:
        client.create(path, body)
    except ConflictError:
        return


def main(arguments: Sequence[str]) -> int:
    """Renew the named nodes for ever."""
    client = Client(kubeconfig(arguments[0]), user_agent="gpuslice-virtual-nodes")
    nodes = [argument.split("=", 1) for argument in arguments[1:]]
    since = seconds(dt.datetime.now(dt.UTC))
    while True:
        pause_s = _EVERY_S
        for name, address in nodes:
            try:
                renew(client, name, address, since)
            except KubeError as error:
                log.warning("node not renewed", node=name, reason=str(error))
                pause_s = _RETRY_S
        time.sleep(pause_s)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
