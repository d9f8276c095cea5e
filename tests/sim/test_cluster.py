"""The cluster as a whole, with a plugin written for tests in place of our agent."""

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.client import Client
from kube.config import load_config
from kube.errors import ServerError
from sim.cluster import Cluster, ClusterError
from sim.kubelet.timing import Timing
from sim.node import NodeHandle, NodeSpec
from sim.runtime.container import from_json
from tests.sim.kubelet.device_plugin_server import RESOURCE, DevicePluginServer
from tests.sim.kubelet.plugin_server import DRIVER, Entry, PluginServer

JsonObject = dict[str, Any]

QUICK = Timing(
    poll_s=0.02, wipe_after_s=0.5, reconcile_s=0.5, sync_backoff_s=0.05, sync_backoff_max_s=0.5
)
CLASS = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}
TEMPLATE = {
    "metadata": {"name": "one-gpu", "namespace": "default"},
    "spec": {
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    },
}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory with a path that is short enough for sockets."""
    made = Path(tempfile.mkdtemp(prefix="gs"))
    yield made
    shutil.rmtree(made)


def two_nodes(directory: Path) -> Cluster:
    """Return a cluster of two nodes with a GPU each."""
    nodes = [NodeSpec(name="node-a", gpus=["t4"]), NodeSpec(name="node-b", gpus=["a100-40gb"])]
    return Cluster(directory, nodes, timing=QUICK)


class Agent:
    """A plugin of one node: publishes one device and writes CDI files."""

    def __init__(self, cluster: Cluster, node: NodeHandle) -> None:
        self.cluster = cluster
        self.node = node
        self.server = PluginServer(node.kubelet_root)
        self.server.prepare = self._prepare
        self.server.start()
        cluster.wait_for(lambda: DRIVER in node.registered_drivers(), 30)
        self.publish()

    def publish(self) -> None:
        """Create the node's slice."""
        pool = {"name": self.node.name, "generation": 1, "resourceSliceCount": 1}
        spec = {
            "driver": DRIVER,
            "nodeName": self.node.name,
            "pool": pool,
            "devices": [{"name": "dev0"}],
        }
        body = {"metadata": {"name": self.node.name}, "spec": spec}
        self.cluster.run(self.cluster.api.create("resourceslices", body))

    def _prepare(self, uids: list[str]) -> dict[str, Entry]:
        for uid in uids:
            node = {"path": "/dev/nvidia0"}
            edits = {"env": [f"CLAIM={uid}"], "deviceNodes": [node]}
            document = {
                "cdiVersion": "0.5.0",
                "kind": "example.com/gpu",
                "devices": [{"name": uid, "containerEdits": edits}],
            }
            self.node.cdi_dir.mkdir(parents=True, exist_ok=True)
            (self.node.cdi_dir / f"{uid}.json").write_text(json.dumps(document))
        return {uid: Entry(cdi=(f"example.com/gpu={uid}",)) for uid in uids}


@contextmanager
def serving(directory: Path, *names: str) -> Iterator[tuple[Cluster, list[Agent]]]:
    """Run two nodes with agents on those of *names*, a class and a template."""
    with two_nodes(directory) as cluster:
        agents = [Agent(cluster, cluster.node(name)) for name in names]
        create(cluster, "deviceclasses", CLASS)
        create(cluster, "resourceclaimtemplates", TEMPLATE)
        try:
            yield cluster, agents
        finally:
            for agent in agents:
                agent.server.stop()


def client_of(kubeconfig: Path) -> closing[Client]:
    """Return a client that is closed after its `with` block."""
    return closing(Client(load_config(str(kubeconfig)), user_agent="test"))


def create(cluster: Cluster, resource: str, body: JsonObject) -> None:
    """Create one object."""
    cluster.run(cluster.api.create(resource, body))


def create_pod(cluster: Cluster, name: str) -> None:
    """Create a pod that wants one GPU."""
    container = {"name": "app", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": claims},
    }
    create(cluster, "pods", body)


def objects(cluster: Cluster, resource: str) -> list[JsonObject]:
    """Return all objects of *resource*."""
    return cluster.run(cluster.api.list(resource))[0]


def phases(cluster: Cluster) -> dict[str, str]:
    """Return the phase of each pod."""
    return {one["metadata"]["name"]: one["status"]["phase"] for one in objects(cluster, "pods")}


def test_the_main_job_runs(directory: Path) -> None:
    """Pods with generated claims run, one per GPU; their end frees a GPU for the next."""
    with serving(directory, "node-a", "node-b") as (cluster, agents):
        for number in range(3):
            create_pod(cluster, f"pod-{number}")
        ready = {"pod-0": "Running", "pod-1": "Running", "pod-2": "Pending"}
        cluster.wait_for(lambda: phases(cluster) == ready, 30)
        views = [view for agent in agents for view in agent.node.containers()]
        assert sorted(view.pod.name for view in views) == ["pod-0", "pod-1"]
        uids = {one["metadata"]["uid"] for one in objects(cluster, "resourceclaims")}
        for view in views:
            assert view.env["CLAIM"] in uids
            # Real node or stand-in: the numbers are those of the simulated driver.
            assert [(one.major, one.minor) for one in view.devices] == [(195, 0)]
        cluster.run(cluster.api.delete("pods", "pod-0", "default"))
        cluster.wait_for(lambda: phases(cluster) == {"pod-1": "Running", "pod-2": "Running"}, 30)
        cluster.wait_for(lambda: len(objects(cluster, "resourceclaims")) == 2, 30)


def test_a_reboot_loses_what_a_reboot_loses(directory: Path) -> None:
    """Containers, CDI files, boot id and slices are gone; kubelet prepares again."""
    with serving(directory, "node-a") as (cluster, (agent,)):
        node = agent.node
        create_pod(cluster, "pod")
        cluster.wait_for(lambda: phases(cluster) == {"pod": "Running"}, 30)
        before = node.boot_id()
        agent.server.stop()
        node.reboot()
        assert node.containers() == []
        assert not node.cdi_dir.exists()
        assert node.boot_id() not in {"", before}
        assert objects(cluster, "resourceslices") == []
        agent.server.start()
        cluster.wait_for(node.containers, 30)
        assert len(agent.server.made("prepare")) == 2
        stored = objects(cluster, "nodes")[0]
        assert stored["status"]["nodeInfo"]["bootID"] == node.boot_id()


def test_a_kubelet_restart_leaves_containers_alone(directory: Path) -> None:
    """After a restart plugins are found again and the same containers run."""
    with serving(directory, "node-a") as (cluster, (agent,)):
        node = agent.node
        create_pod(cluster, "pod")
        cluster.wait_for(lambda: phases(cluster) == {"pod": "Running"}, 30)
        before = node.containers()
        node.restart_kubelet()
        cluster.wait_for(node.registered_drivers, 30)
        assert node.containers() == before
        assert objects(cluster, "resourceslices") == []
        assert len(agent.server.made("prepare")) == 1


def test_pods_are_scheduled_by_what_device_plugins_offer(directory: Path) -> None:
    """One too many waits until another has gone, over a restart of kubelet too."""
    devices = {"a": "Healthy", "b": "Healthy", "ill": "Unhealthy"}
    limits = {RESOURCE: "1"}
    with two_nodes(directory) as cluster:
        node = cluster.node("node-b")
        plugin = DevicePluginServer(node.kubelet_root, devices=devices).start()
        try:
            cluster.wait_for(lambda: offered(cluster, "node-b") == "2", 30)
            for number, name in enumerate(("first", "second", "third")):
                container = {"name": "app", "image": "i", "resources": {"limits": limits}}
                meta = {"name": name, "namespace": "default"}
                create(cluster, "pods", {"metadata": meta, "spec": {"containers": [container]}})
                running = min(number + 1, 2)
                cluster.wait_for(lambda: len(node.containers()) == running, 30)  # noqa: B023
            waiting = {"first": "Running", "second": "Running", "third": "Pending"}
            cluster.wait_for(lambda: phases(cluster) == waiting, 30)
            node.restart_kubelet()
            cluster.wait_for(lambda: offered(cluster, "node-b") == "0", 30)
            assert node.device_plugins() == {}
            plugin.stop()
            plugin.start()
            cluster.wait_for(lambda: offered(cluster, "node-b") == "2", 30)
            assert node.device_plugins() == {RESOURCE: str(plugin.socket)}
            cluster.run(cluster.api.delete("pods", "first", "default"))
            cluster.wait_for(lambda: phases(cluster).get("third") == "Running", 30)
            assert sorted(view.env["IDS"] for view in node.containers()) == ["a", "b"]
        finally:
            plugin.stop()


def offered(cluster: Cluster, node: str) -> str | None:
    """Return what a node offers of the tests' resource."""
    status = cluster.run(cluster.api.get("nodes", node))["status"]
    found: str | None = status["allocatable"].get(RESOURCE)
    return found


def test_other_processes_can_read_and_ask(directory: Path) -> None:
    """The kubeconfig reaches the server, and files show the containers."""
    with two_nodes(directory) as cluster:
        with client_of(cluster.kubeconfig) as client:
            found = json.loads(client.get("/api/v1/nodes"))
        names = [one["metadata"]["name"] for one in found["items"]]
        assert names == ["node-a", "node-b"]
        body = {
            "metadata": {"name": "pod", "namespace": "default"},
            "spec": {"containers": [{"name": "app", "image": "i"}]},
        }
        create(cluster, "pods", body)
        cluster.wait_for(lambda: phases(cluster) == {"pod": "Running"}, 30)
        files = list(directory.glob("node-*/containers/*/app.json"))
        assert [from_json(path.read_bytes()).pod.name for path in files] == ["pod"]


def test_users_have_kubeconfigs_of_their_own(directory: Path) -> None:
    """Requests of a user can be told from others in the server's journal."""
    with two_nodes(directory) as cluster:
        with client_of(cluster.kubeconfig_for("agent")) as client:
            client.get("/api/v1/nodes")
        requests = cluster.call(lambda: cluster.server.requests)
        assert [one.user for one in requests if one.path == "/api/v1/nodes"] == ["agent"]


def test_faults_reach_clients(directory: Path) -> None:
    """What is injected through the server is seen over HTTP and not in the process."""
    with two_nodes(directory) as cluster:
        cluster.call(cluster.server.fail_next, 1, 503)
        with client_of(cluster.kubeconfig) as client, pytest.raises(ServerError):
            client.get("/api/v1/nodes")
        assert len(objects(cluster, "nodes")) == 2


def test_the_host_shows_the_gpus_of_its_file(directory: Path) -> None:
    """Each node has its GPUs' files, with UUIDs of its own; an edit is taken over when told."""
    with two_nodes(directory) as cluster:
        node = cluster.node("node-a")
        file = yaml.safe_load(node.gpus_file.read_text())
        assert file == {"node": "node-a", "gpus": [{"profile": "t4"}]}
        boot_id = node.boot_id()
        assert (node.root / "dev/nvidia0").exists()
        assert not (node.root / "dev/nvidia1").exists()
        node.gpus_file.write_text(yaml.safe_dump({**file, "gpus": [{"profile": "t4", "count": 2}]}))
        node.rebuild_driver()
        assert (node.root / "dev/nvidia1").exists()
        assert node.boot_id() == boot_id


def test_a_gpu_file_may_be_given(directory: Path) -> None:
    """A file is copied; the node's name is added where the file has none."""
    path = directory / "gpus.yaml"
    path.write_text("gpus: [{profile: l4}]\n")
    with Cluster(directory / "c", [NodeSpec(name="node-a", gpus=path)]) as cluster:
        file = yaml.safe_load(cluster.node("node-a").gpus_file.read_text())
        assert file == {"node": "node-a", "gpus": [{"profile": "l4"}]}


def test_a_path_too_long_for_sockets_is_refused(directory: Path) -> None:
    """The mistake is told before anything is made."""
    deep = directory / ("x" * 80)
    with pytest.raises(ValueError, match="107"):
        Cluster(deep, [NodeSpec(name="node-a")])
    assert not deep.exists()


def test_a_cluster_acts_as_its_version(directory: Path) -> None:
    """Server and kubelets are of the version that was asked for."""
    with Cluster(directory, [NodeSpec(name="node-a")], version="1.34") as cluster:
        info = objects(cluster, "nodes")[0]["status"]["nodeInfo"]
        assert info["kubeletVersion"].startswith("v1.34")
        with client_of(cluster.kubeconfig) as client:
            assert client.server_version().startswith("v1.34")


def test_waiting_ends_with_its_time(directory: Path) -> None:
    """What does not come true is an error that says what was waited for."""

    def never() -> bool:
        """Pigs fly."""
        return False

    with Cluster(directory, []) as cluster, pytest.raises(TimeoutError, match="Pigs fly"):
        cluster.wait_for(never, 0.1)


def test_a_stopped_cluster_leaves_no_thread(directory: Path) -> None:
    """Stopping ends the loop's thread; a second stop does nothing, and calls are refused."""
    cluster = two_nodes(directory)
    cluster.start()
    cluster.stop()
    cluster.stop()
    assert "cluster" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ClusterError):
        cluster.node("node-a").restart_kubelet()
