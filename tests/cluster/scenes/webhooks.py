"""The admission webhook on a real cluster: two replicas behind their Service.

They are real processes in the cluster's network, each on the address of a node, with the token and
the rights of the chart and certificates that they make themselves. The Service of the chart selects
pods, and no pod is here: endpoints written by hand take their place.
"""

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final

import yaml

from kube import paths
from kube.client import Client
from kube.errors import NotFoundError
from tests.cluster.cluster import RealCluster
from tests.cluster.identities import identity_on
from tests.cluster.kubeconfigs import write_for_token
from tests.cluster.places import node_address
from tests.cluster.scenes.agents import NAMESPACE, STOP_S
from tests.cluster.scenes.driver import MANIFESTS, collection_of
from tests.patience import eventually

SERVICE: Final = "gpuslice-webhook"
SECRET: Final = "gpuslice-webhook-tls"  # noqa: S105 - the name of one
REPLICAS: Final = 2
_CHART: Final = MANIFESTS / "dra" / "webhook"
_OF_PODS: Final = ("Deployment", "PodDisruptionBudget")
"""Processes take the place of pods here."""
_PORT: Final = 9443
_PROBE_PORT: Final = 9080
_PROBE_TIMEOUT_S: Final = 5
_CONFIGURATIONS: Final = "configurations.yaml"

Manifest = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Replica:
    """One process."""

    index: int
    process: subprocess.Popen[Any]

    def ready(self) -> bool:
        """Tell whether it answers reviews; it must not have ended."""
        assert self.process.poll() is None, f"replica {self.index} of the webhook has ended"
        try:
            url = f"http://{node_address(self.index)}:{_PROBE_PORT}/readyz"
            with urllib.request.urlopen(url, timeout=_PROBE_TIMEOUT_S):  # our own URL
                return True
        except (OSError, HTTPException):
            return False


@dataclass(slots=True, kw_only=True)
class Webhooks:
    """All replicas of a cluster."""

    cluster: RealCluster
    kubeconfig: str
    flags: Mapping[str, object]
    replicas: dict[int, Replica] = field(default_factory=dict)

    def start(self, index: int) -> None:
        """Start a replica and wait until it answers."""
        self.replicas[index] = replica = Replica(index=index, process=self._spawn(index))
        eventually(replica.ready)

    def kill(self, index: int) -> None:
        """End a replica as a crash would."""
        process = self.replicas.pop(index).process
        process.kill()
        process.wait(STOP_S)

    def stop(self) -> None:
        """End all."""
        for replica in self.replicas.values():
            replica.process.terminate()
        for replica in self.replicas.values():
            replica.process.wait(STOP_S)
        self.replicas.clear()

    def log(self) -> str:
        """Return all that replicas have logged."""
        logs = (self.cluster.log(f"webhook-{index}") for index in range(REPLICAS))
        return "".join(log.read_text(errors="replace") for log in logs if log.exists())

    def _spawn(self, index: int) -> subprocess.Popen[Any]:
        address = node_address(index)
        flags: dict[str, object] = {
            "--namespace": NAMESPACE,
            "--service-name": SERVICE,
            "--kubeconfig": self.kubeconfig,
            "--address": address,
            "--port": _PORT,
            "--probe-address": address,
            "--probe-port": _PROBE_PORT,
            "--advertise-address": address,
            "--pod-name": f"{SERVICE}-{index}",
            "--drain-s": 0,
            **self.flags,
        }
        words = [str(word) for pair in flags.items() for word in pair]
        command = (sys.executable, "-m", "cli.main", "webhook", *words)
        return self.cluster.start(f"webhook-{index}", command)


@contextlib.contextmanager
def running_webhooks(
    cluster: RealCluster, *, flags: Mapping[str, object] | None = None
) -> Iterator[Webhooks]:
    """Run both replicas for the block, registered as the chart does it; afterwards nothing is."""
    with cluster.client() as client:
        for manifest in _manifests(but=_CONFIGURATIONS):
            _apply(client, manifest)
        _apply(client, _endpoints())
        identity = identity_on(
            cluster, node=cluster.node_names[0], namespace=NAMESPACE, account=SERVICE
        )
        kubeconfig = write_for_token(cluster.state, SERVICE, identity / "token")
        webhooks = Webhooks(cluster=cluster, kubeconfig=str(kubeconfig), flags=flags or {})
        try:
            for manifest in _manifests(only=_CONFIGURATIONS):
                _apply(client, manifest)
            for index in range(REPLICAS):
                webhooks.start(index)
            yield webhooks
        finally:
            for manifest in _manifests(only=_CONFIGURATIONS):
                client.delete(_path(manifest))
            webhooks.stop()
            for manifest in _manifests(but=_CONFIGURATIONS):
                if manifest["kind"].startswith("ValidatingAdmissionPolicy"):
                    client.delete(_path(manifest))


def serving_certificate(client: Client) -> str:
    """Return the certificate that the replicas share, as the Secret has it."""
    path = paths.resource("v1", "secrets", namespace=NAMESPACE, name=SECRET)
    return str(json.loads(client.get(path))["data"]["tls.crt"])


def forget_certificate(client: Client) -> None:
    """Delete the Secret, so that a new certificate of a new authority is made."""
    client.delete(paths.resource("v1", "secrets", namespace=NAMESPACE, name=SECRET))


def _manifests(*, only: str = "", but: str = "") -> Iterator[Manifest]:
    for path in sorted(_CHART.glob("*.yaml")):
        if path.name == but or (only and path.name != only):
            continue
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest["kind"] in _OF_PODS:
                continue
            if manifest["kind"] == "Service":
                del manifest["spec"]["selector"]
            yield manifest


def _endpoints() -> Manifest:
    """Return where the Service leads; a controller mirrors it into slices."""
    addresses = [{"ip": node_address(index)} for index in range(REPLICAS)]
    subset = {"addresses": addresses, "ports": [{"name": "https", "port": _PORT}]}
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "subsets": [subset],
    }


def _apply(client: Client, manifest: Manifest) -> None:
    """Create the object unless it is there."""
    try:
        client.get(_path(manifest))
    except NotFoundError:
        client.create(_collection(manifest), manifest)


def _collection(manifest: Manifest) -> str:
    if manifest["kind"] == "Endpoints":
        return paths.resource("v1", "endpoints", namespace=manifest["metadata"]["namespace"])
    return collection_of(manifest)


def _path(manifest: Manifest) -> str:
    return f"{_collection(manifest)}/{manifest['metadata']['name']}"
