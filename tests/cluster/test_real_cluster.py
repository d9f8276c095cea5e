"""Tests of what a cluster that is up can do."""

import base64
import json
from pathlib import Path
from typing import Any, Final

import pytest

from kube import paths
from kube.client import Client
from kube.config import in_cluster_config, kubeconfig
from tests.cluster.cluster import RealCluster
from tests.cluster.go_modules import kubernetes_release
from tests.cluster.identities import identity_on
from tests.cluster.images import BUSYBOX
from tests.cluster.kubeconfigs import write_for_token
from tests.cluster.places import API_SERVICE_ADDRESS, node_address
from tests.cluster.webhook_server import webhook_server

pytestmark = pytest.mark.cluster

_SHELL: Final = "echo started; trap 'exit 0' TERM; while true; do sleep 0.1; done"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a pod of one busybox that says so when it has started."""
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", _SHELL],
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def run_pod(cluster: RealCluster, body: dict[str, Any]) -> str:
    """Create a pod and wait until it runs."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    name = str(body["metadata"]["name"])
    cluster.kubectl("wait", "pod", name, "--for=condition=Ready", "--timeout=60s")
    return name


def test_release_is_the_one_asked_for(cluster: RealCluster) -> None:
    """The API server, reached from the test's own process, says the release it was built as."""
    client = Client(kubeconfig(str(cluster.kubeconfig)), user_agent="test")
    release = kubernetes_release(cluster.options.minor)
    assert client.server_version() == release
    nodes = json.loads(client.get(paths.nodes()))["items"]
    client.close()
    versions = {node["metadata"]["name"]: node["status"].get("nodeInfo") for node in nodes}
    assert set(versions) == set(cluster.node_names)
    assert versions["node-1"]["kubeletVersion"] == release


def test_pod_runs_and_can_be_looked_into(cluster: RealCluster) -> None:
    """A pod runs, its log is read, and a command runs in it; both pass the kubelet's own server."""
    node = cluster.node_names[0]
    name = run_pod(cluster, pod("plain", nodeSelector={"kubernetes.io/hostname": node}))
    assert cluster.kubectl("logs", name) == "started\n"
    assert cluster.kubectl("exec", name, "--", "cat", "/etc/hostname") == f"{name}\n"
    found = json.loads(cluster.kubectl("get", "pod", name, "-o", "json"))
    assert found["status"]["hostIP"] == node_address(0)
    assert found["status"]["podIP"].startswith("10.244.0.")
    cluster.kubectl("delete", "pod", name)


def test_pod_reaches_the_api_server(cluster: RealCluster) -> None:
    """A pod finds the API server as every pod does, as its own service account."""
    tools = str(Path(cluster.assets.path("kubectl")).parent)
    body = pod(
        "caller",
        nodeSelector={"kubernetes.io/hostname": cluster.node_names[0]},
        volumes=[{"name": "tools", "hostPath": {"path": tools}}],
        container={"volumeMounts": [{"name": "tools", "mountPath": "/tools"}]},
    )
    name = run_pod(cluster, body)
    answer = cluster.kubectl("exec", name, "--", "/tools/kubectl", "auth", "whoami", "-o", "json")
    user = json.loads(answer)["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:default"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == [name]
    cluster.kubectl("delete", "pod", name)


def test_pod_of_a_virtual_node_is_bound(cluster: RealCluster) -> None:
    """The scheduler chooses a node without a kubelet; its pod is bound and goes no further."""
    node = cluster.node_names[2]
    body = pod("waiting", nodeSelector={"kubernetes.io/hostname": node})
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    cluster.kubectl("wait", "pod", "waiting", "--for=condition=PodScheduled", "--timeout=60s")
    found = json.loads(cluster.kubectl("get", "pod", "waiting", "-o", "json"))
    assert (found["spec"]["nodeName"], found["status"]["phase"]) == (node, "Pending")
    cluster.kubectl("delete", "pod", "waiting", "--grace-period=0", "--force")


def test_identity_carries_its_node(cluster: RealCluster) -> None:
    """A token bound to a pod of a virtual node names that node, which policies can read."""
    node = cluster.node_names[1]
    cluster.kubectl("create", "serviceaccount", "agent")
    folder = identity_on(cluster, node=node, namespace="default", account="agent")
    config = in_cluster_config(folder, cluster.in_cluster_environment())
    assert config.host == f"https://{API_SERVICE_ADDRESS}:443"
    path = write_for_token(cluster.state, "agent", folder / "token")
    answer = cluster.kubectl(f"--kubeconfig={path}", "auth", "whoami", "-o", "json")
    user = json.loads(answer)["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:agent"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == [node]
    cluster.kubectl("delete", "pod", f"agent-{node}", "--grace-period=0", "--force")
    cluster.kubectl("delete", "serviceaccount", "agent")


def test_webhook_is_called_by_its_service(cluster: RealCluster, tmp_path: Path) -> None:
    """The API server calls a webhook named by a Service, at the address of its endpoints."""
    with webhook_server(node_address(0), "hook.default.svc", tmp_path) as (port, authority):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(service_of(port)))
        hook = webhook_of(base64.b64encode(authority).decode())
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(hook))
        create = ("create", "configmap", "probe", "--dry-run=server")
        done = cluster.run_in(cluster.assets.path("kubectl"), *create, check=False)
        # A new webhook counts once the API server has seen it.
        for _ in range(50):
            if done.stderr:
                break
            done = cluster.run_in(cluster.assets.path("kubectl"), *create, check=False)
        cluster.kubectl("delete", "validatingwebhookconfiguration", "hook")
        cluster.kubectl("delete", "service", "hook")
    assert done.stderr == "Warning: seen probe\n"


def service_of(port: int) -> dict[str, Any]:
    """Return a Service without selector and endpoints on the first node's address."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "hook"},
        "spec": {"ports": [{"port": 443, "targetPort": port}]},
    }
    # A controller mirrors these into slices; 1.33 reads them as they are.
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "hook"},
        "subsets": [{"addresses": [{"ip": node_address(0)}], "ports": [{"port": port}]}],
    }
    return {"apiVersion": "v1", "kind": "List", "items": [service, endpoints]}


def webhook_of(authority: str) -> dict[str, Any]:
    """Return the configuration of a webhook that sees new config maps of one namespace."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hook"},
        "webhooks": [
            {
                "name": "hook.gpuslice.test",
                "clientConfig": {
                    "service": {"name": "hook", "namespace": "default"},
                    "caBundle": authority,
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 5,
            }
        ],
    }


def test_nothing_leads_out(cluster: RealCluster) -> None:
    """The namespace has no link to the machine's networks and no name server."""
    links = json.loads(cluster.run_in("ip", "-json", "link").stdout)
    names = {link["ifname"] for link in links}
    assert names >= {"lo", "nodes0"}
    # Links to outside would be of other names; those of pods lead to namespaces in here.
    assert all(
        name in {"lo", "nodes0", "pods0"} or name.startswith("veth")
        for name in names - {link["ifname"] for link in links if link["operstate"] == "DOWN"}
    )
    assert "nameserver 127.0.0.1" in cluster.run_in("cat", "/etc/resolv.conf").stdout
