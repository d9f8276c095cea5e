"""The scheduler extender on a real cluster: a second kube-scheduler that asks it, and its process.

Both are configured by the chart and have the rights of its service account. Nodes are virtual: what
HAMi's device plugin does on a node is done here by a thread, which hands out what was decided and
gives the node's lock back.
"""

import contextlib
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final

import yaml

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.config import kubeconfig
from kube.errors import KubeError, NotFoundError
from tests.cluster.cluster import RealCluster
from tests.cluster.identities import identity_on
from tests.cluster.kubeconfigs import write_for_token
from tests.cluster.scenes.agents import NAMESPACE, STOP_S
from tests.cluster.scenes.driver import MANIFESTS, collection_of
from tests.cluster.scenes.manifests import reporting
from tests.patience import eventually

ACCOUNT: Final = "gpuslice-scheduler"
SCHEDULER: Final = "hami-scheduler"
LOCK: Final = "hami.io/mutex.lock"
PHASE: Final = "hami.io/bind-phase"
REGISTER: Final = "hami.io/node-nvidia-register"
_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
_CHART: Final = MANIFESTS / "hami" / "scheduler"
_METRICS_PORT: Final = 9395
_SCHEDULER_PORT: Final = 10260
_TIMEOUT_S: Final = 5
_LOOK_EVERY_S: Final = 0.02

Manifest = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Extenders:
    """An extender and the scheduler that asks it."""

    cluster: RealCluster
    kubeconfig: str
    config: str
    flags: Sequence[str] = ()
    """Of the extender, besides the usual ones."""
    processes: dict[str, subprocess.Popen[Any]] = field(default_factory=dict)

    def start_extender(self) -> None:
        """Start the extender, which decides once the scheduler beside it leads."""
        self._start(
            "extender",
            (
                *(sys.executable, "-m", "cli.main", "extender"),
                *("--kubeconfig", self.kubeconfig),
                *("--leader-elect-resource-namespace", NAMESPACE),
                *("--metrics-address", "127.0.0.1"),
                *("--metrics-port", str(_METRICS_PORT)),
                *self.flags,
            ),
        )

    def start_scheduler(self) -> None:
        """Start the scheduler, as a container beside the extender would be."""
        self._start(
            "hami-scheduler",
            (
                self.cluster.assets.path("kube-scheduler"),
                f"--config={self.config}",
                f"--secure-port={_SCHEDULER_PORT}",
                f"--cert-dir={self.cluster.state_dir / 'hami-scheduler'}",
                f"--authentication-kubeconfig={self.kubeconfig}",
                f"--authorization-kubeconfig={self.kubeconfig}",
                "--authentication-tolerate-lookup-failure",
            ),
        )

    def kill(self, name: str) -> None:
        """End one of both as a crash would."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(STOP_S)

    def end(self, name: str) -> None:
        """End one of both as a node would; the scheduler gives the lead back."""
        process = self.processes.pop(name)
        process.terminate()
        process.wait(STOP_S)

    def metrics(self) -> str:
        """Return the extender's metrics in Prometheus' text form."""
        url = f"http://127.0.0.1:{_METRICS_PORT}/metrics"
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:  # our own URL
            return str(response.read().decode())

    def stop(self) -> None:
        """End both."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(STOP_S)
        self.processes.clear()

    def ready(self) -> bool:
        """Tell whether the extender decides; it must not have ended."""
        assert self.processes["extender"].poll() is None, "the extender has ended"
        try:
            url = f"http://127.0.0.1:{_METRICS_PORT}/readyz"
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S):  # our own URL
                return True
        except (OSError, HTTPException):
            return False

    def start_module(self, name: str, module: str, *arguments: str) -> None:
        """Start a module of ours that is to end with both."""
        self._start(name, (sys.executable, "-m", module, *arguments))

    def _start(self, name: str, command: Sequence[str]) -> None:
        self.processes[name] = self.cluster.start(name, command)


@contextlib.contextmanager
def running_extender(
    cluster: RealCluster,
    *,
    flags: Sequence[str] = (),
    connection: Mapping[str, int] | None = None,
) -> Iterator[Extenders]:
    """Run an extender with *flags* and its scheduler, with *connection* limits, for the block."""
    with cluster.client() as client:
        config = _apply_chart(client)
        identity = identity_on(
            cluster, node=cluster.node_names[0], namespace=NAMESPACE, account=ACCOUNT
        )
        credentials = write_for_token(cluster.state, ACCOUNT, identity / "token")
        config["clientConnection"] = {"kubeconfig": str(credentials), **(connection or {})}
        file = cluster.state_dir / "hami-scheduler.yaml"
        file.write_text(yaml.safe_dump(config))
        extenders = Extenders(
            cluster=cluster, kubeconfig=str(credentials), config=str(file), flags=flags
        )
        try:
            extenders.start_scheduler()
            extenders.start_extender()
            eventually(extenders.ready)
            yield extenders
        finally:
            extenders.stop()


def _apply_chart(client: Client) -> Manifest:
    """Create what the chart has for the extender and return the scheduler's configuration."""
    config: Manifest = {}
    for path in sorted(_CHART.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest["kind"] == "Deployment":
                # Processes take the place of its pod.
                continue
            _apply(client, manifest)
            if manifest["kind"] == "ConfigMap":
                config = yaml.safe_load(manifest["data"]["config.yaml"])
    return config


def register(client: Client, node: str, devices: Sequence[Manifest]) -> None:
    """Let *node* say which GPUs it has, and kubelet how many shares."""
    text = json.dumps(devices, separators=(",", ":"))
    client.patch(
        paths.nodes(node),
        {"metadata": {"annotations": {REGISTER: text}}},
        content_type=MERGE_PATCH,
    )
    shares = {"nvidia.com/gpu": str(sum(each["count"] for each in devices))}
    status = {"status": {"capacity": shares, "allocatable": shares}}
    client.patch(paths.nodes(node, "status"), status, content_type=MERGE_PATCH)


def unregister(client: Client, node: str) -> None:
    """Take that back."""
    gone = {"metadata": {"annotations": {REGISTER: None, LOCK: None}}}
    client.patch(paths.nodes(node), gone, content_type=MERGE_PATCH)
    status = {"capacity": {"nvidia.com/gpu": None}, "allocatable": {"nvidia.com/gpu": None}}
    client.patch(paths.nodes(node, "status"), {"status": status}, content_type=MERGE_PATCH)


def a_gpu(uuid: str, index: int, *, memory_mib: int, count: int) -> Manifest:
    """Return what a node registers of one GPU."""
    return {
        "id": uuid,
        "index": index,
        "count": count,
        "devmem": memory_mib,
        "devcore": 100,
        "type": "NVIDIA A100-SXM4-40GB",
        "mode": "hami-core",
        "health": True,
    }


def legacy(name: str, *, node: str = "", **limits: str) -> Manifest:
    """Return a pod as HAMi's webhook leaves it; *limits* are below `nvidia.com/`."""
    amounts = {f"nvidia.com/{key}": value for key, value in limits.items()}
    spec: Manifest = {
        "schedulerName": SCHEDULER,
        "containers": [{"name": "app", "resources": {"limits": amounts}}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return reporting(pod, node=node)


def given(pod: Manifest) -> list[tuple[str, int, int]]:
    """Return UUID, MiB and percent of each device that the pod was given."""
    text = str(pod["metadata"]["annotations"][_ALLOCATED])
    parts = [each.split(",") for slot in text.split(";") for each in slot.split(":") if each]
    return [(uuid, int(mib), int(cores)) for uuid, _, mib, cores in parts]


def used(pods: list[Any]) -> dict[str, tuple[int, int, int]]:
    """Return what is taken of each GPU: shares, MiB and percent."""
    sums: dict[str, tuple[int, int, int]] = {}
    for pod in pods:
        for uuid, mib, cores in given(pod):
            shares, old_mib, old_cores = sums.get(uuid, (0, 0, 0))
            sums[uuid] = (shares + 1, old_mib + mib, old_cores + cores)
    return sums


@contextlib.contextmanager
def device_plugins(cluster: RealCluster, nodes: Sequence[str]) -> Iterator[None]:
    """Hand out on *nodes* what was decided, as HAMi's device plugin does, for the block."""
    stop = threading.Event()
    client = Client(kubeconfig(str(cluster.kubeconfig)), user_agent="device-plugin")

    def work() -> None:
        while not stop.wait(_LOOK_EVERY_S):
            for node in nodes:
                with contextlib.suppress(KubeError):
                    _hand_out(client, node)

    thread = threading.Thread(target=work, name="device-plugins")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        client.close()


def _hand_out(client: Client, node: str) -> None:
    """Serve the pod that holds the lock of *node*, and give the lock back."""
    annotations = json.loads(client.get(paths.nodes(node)))["metadata"].get("annotations", {})
    lock = annotations.get(LOCK)
    if lock is None:
        return
    _, namespace, name = str(lock).split(",")
    pod = json.loads(client.get(paths.pods(namespace, name)))
    # The lock comes before what is written on the pod, and that before the binding.
    written = pod["metadata"].get("annotations", {})
    if written.get(PHASE) != "allocating" or not pod["spec"].get("nodeName"):
        return
    serve(client, paths.pods(namespace, name), node)


def serve(client: Client, pod_path: str, node: str) -> None:
    """Say of a pod that it has its devices, and give the lock of *node* back."""
    served = {PHASE: "success", "hami.io/vgpu-devices-to-allocate": ";"}
    client.patch(pod_path, {"metadata": {"annotations": served}}, content_type=MERGE_PATCH)
    free = {"metadata": {"annotations": {LOCK: None}}}
    client.patch(paths.nodes(node), free, content_type=MERGE_PATCH)


def _apply(client: Client, manifest: Manifest) -> None:
    path = f"{collection_of(manifest)}/{manifest['metadata']['name']}"
    try:
        client.get(path)
    except NotFoundError:
        client.create(collection_of(manifest), manifest)
