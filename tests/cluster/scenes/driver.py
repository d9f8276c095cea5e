"""The driver on a real cluster: a node agent for each node, with what the chart gives it.

Only NVML and the files of NVIDIA's driver are stood in for. The first node's agent finds the
driver below /run/nvidia/driver, where the GPU Operator's driver container has it, its device nodes
included, for /dev belongs to the machine. Nodes without a kubelet have agents with a kubelet root
of their own, which no kubelet ever reads.
"""

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from cdi.library import make_placeholder
from gpu import names
from kube import paths
from kube.client import Client
from kube.errors import ConflictError
from sim import driverroot, gpufile, hardware
from tests.cluster.cluster import REPOSITORY, RealCluster
from tests.cluster.identities import identity_on
from tests.patience import eventually

NAMESPACE: Final = "gpuslice-system"
ACCOUNT: Final = "gpuslice-node-agent"
DRIVER_ROOT: Final = "/run/nvidia/driver"
_CHART: Final = REPOSITORY / "charts" / "gpuslice"
_CLASSES: Final = REPOSITORY / "examples" / "device-classes" / "classes.yaml"
_BOOT_ID: Final = "sys/kernel/random/boot_id"
_FIRST_PORT: Final = 51515
STOP_S: Final = 20.0
# A scene waits for it.
_RESTORE_S: Final = 2

GPUS: Final[tuple[tuple[Mapping[str, Any], ...], ...]] = (
    (
        {"profile": "t4"},
        {"profile": "a10"},
        {"profile": "l4"},
        {"profile": "h100-80gb"},
        {"profile": "a100-80gb", "mig": ["3g.40gb", "1g.10gb", "1g.10gb"]},
    ),
    ({"profile": "a10"}, {"profile": "a30"}),
    ({"profile": "h200-141gb"},),
)


@dataclass(slots=True, kw_only=True)
class Agent:
    """The node agent of one node."""

    node: str
    process: subprocess.Popen[Any]
    port: int
    identity: Path
    """Folder with the token that it uses."""
    cdi_folder: str
    """As the cluster's processes see it."""
    gpus: Path
    """Its GPU file."""

    def ready(self) -> bool:
        """Tell whether kubelet, GPUs and slices are as they should be."""
        assert self.process.poll() is None, f"the agent of {self.node} has ended"
        return self._ask("readyz")[0]

    def metrics(self) -> str:
        """Return its metrics in Prometheus' text form."""
        return self._ask("metrics")[1]

    def _ask(self, path: str) -> tuple[bool, str]:
        url = f"http://127.0.0.1:{self.port}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:  # our own URL
                return True, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return False, error.read().decode()
        except OSError as error:
            return False, str(error)


@dataclass(slots=True, kw_only=True)
class Driver:
    """All agents of a cluster."""

    cluster: RealCluster
    agents: dict[str, Agent] = field(default_factory=dict)

    @property
    def first(self) -> Agent:
        """Return the agent of the node with a kubelet."""
        return self.agents[self.cluster.node_names[0]]

    def log(self, node: str) -> str:
        """Return all that the agent of *node* has logged."""
        return self.cluster.log(f"agent-{node}").read_text(errors="replace")

    def specs(self) -> list[Path]:
        """Return the CDI specs that are there on the node with a kubelet."""
        return sorted(self.cluster.outside(self.first.cdi_folder).glob("*.json"))

    def regions(self) -> list[Path]:
        """Return the usage regions that are there on the node with a kubelet."""
        plugin = self.cluster.kubelet_root / "plugins" / names.DRIVER
        return sorted(self.cluster.outside(plugin / "regions").iterdir())

    def capabilities(self, uuid: str) -> frozenset[int]:
        """Return the minors of what opens the MIG device *uuid* of the first node."""
        (found,) = (
            (gpu, each)
            for gpu in hardware.gpus(gpufile.load(self.first.gpus))
            for each in gpu.mig
            if each.uuid == uuid
        )
        gpu, mig = found
        instance = partial(
            driverroot.cap_minor, gpu_minor=gpu.minor, gpu_instance=mig.gpu_instance_id
        )
        return frozenset({instance(), instance(compute_instance=mig.compute_instance_id)})

    def restart_first(self) -> None:
        """End the agent of the node with a kubelet as a node would, and start it again."""
        self.first.process.terminate()
        self.first.process.wait(STOP_S)
        node = self.first.node
        self.agents[node] = _start(self.cluster, 0, node)
        eventually(self.first.ready)


@contextlib.contextmanager
def running_driver(cluster: RealCluster) -> Iterator[Driver]:
    """Run the agents of all nodes for the block."""
    driver = Driver(cluster=cluster)
    try:
        # Left before the block: the thread has other tests to run than those on the cluster.
        with cluster.client() as client:
            apply_chart(client)
            for index, node in enumerate(cluster.node_names):
                driver.agents[node] = _start(cluster, index, node)
            eventually(driver.first.ready)
            for node, agent in driver.agents.items():
                eventually(partial(_offers, client, node, agent))
        yield driver
    finally:
        for agent in driver.agents.values():
            agent.process.terminate()
        for agent in driver.agents.values():
            agent.process.wait(STOP_S)


def apply_chart(client: Client) -> None:
    """Create what an administrator applies before the agents: rights, policy and classes."""
    _create(client, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}, "kind": "Namespace"})
    for path in (*sorted(_CHART.glob("*/*.yaml")), _CLASSES):
        for each in yaml.safe_load_all(path.read_text()):
            _create(client, collection_of(each), each)


def collection_of(manifest: Mapping[str, Any]) -> str:
    """Return the path of the collection of an object from a manifest."""
    plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
        manifest["kind"],
        f"{manifest['kind'].lower()}{'es' if manifest['kind'][-1] == 's' else 's'}",
    )
    namespace = manifest["metadata"].get("namespace")
    return paths.resource(str(manifest["apiVersion"]), plural, namespace=namespace)


def devices_of(client: Client, node: str) -> list[dict[str, Any]]:
    """Return the devices that *node* offers now."""
    slices = json.loads(client.get(paths.resource_slices()))["items"]
    own = [
        each["spec"]
        for each in slices
        if each["spec"].get("nodeName") == node and each["spec"]["driver"] == names.DRIVER
    ]
    return [device for spec in own for device in spec.get("devices", [])]


def _offers(client: Client, node: str, agent: Agent) -> bool:
    """Tell whether *node* offers devices; an agent without a kubelet is never ready."""
    assert agent.process.poll() is None, f"the agent of {node} has ended"
    return bool(devices_of(client, node))


def _create(client: Client, path: str, body: dict[str, Any]) -> None:
    with contextlib.suppress(ConflictError):
        client.create(path, body)


def _start(cluster: RealCluster, index: int, node: str) -> Agent:
    # The first node's /run is what all processes of the cluster have; further ones have trees.
    tree = Path("/") if index == 0 else Path("/var/lib/hosts", node)
    kubelet_root = cluster.kubelet_root if index == 0 else tree / "k"
    cdi_folder = cluster.cdi_dir if index == 0 else tree / "cdi"
    written = cluster.outside("/var/lib").parents[1] / str(tree).lstrip("/")
    gpus = _build_host(written, node, GPUS[index % len(GPUS)])
    library = cluster.state_dir / "libvgpu.so"
    if not library.exists():
        make_placeholder(library)
    identity = identity_on(cluster, node=node, namespace=NAMESPACE, account=ACCOUNT)
    port = _FIRST_PORT + index
    flags = {
        "--node-name": node,
        "--kubelet-root": kubelet_root,
        "--cdi-directory": cdi_folder,
        "--host-root": tree,
        "--proc-root": written / "proc",
        "--sys-root": written / "sys",
        "--hami-core-library": library,
        "--probe-address": "127.0.0.1",
        "--probe-port": port,
        "--operator-wait-s": 0,
        "--restore-interval-s": _RESTORE_S,
    }
    words = [str(word) for pair in flags.items() for word in pair]
    simulated = ["--gpus", str(gpus), "--service-account", str(identity)]
    process = cluster.start(
        f"agent-{node}",
        (
            *(sys.executable, "-m", "cli.simulated_agent"),
            *(*simulated, "--", *words, "--accept-placeholder-library"),
        ),
        environment=cluster.in_cluster_environment(),
    )
    return Agent(
        node=node,
        process=process,
        port=port,
        identity=identity,
        cdi_folder=str(cdi_folder),
        gpus=gpus,
    )


def _build_host(tree: Path, node: str, gpus: tuple[Mapping[str, Any], ...]) -> Path:
    """Write driver, /proc and /sys of a node below *tree* and return its GPU file."""
    path = tree / "gpus.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"node": node, "gpus": [dict(each) for each in gpus]}))
    driverroot.build(gpufile.load(path), tree, driver_root=DRIVER_ROOT, dev_root=DRIVER_ROOT)
    boot_id = tree / "proc" / _BOOT_ID
    boot_id.parent.mkdir(parents=True, exist_ok=True)
    boot_id.write_text(Path("/proc", _BOOT_ID).read_text())
    return path
