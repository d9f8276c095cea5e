"""A device plugin of our own on a real cluster's first node, and pods that ask for its devices."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kube import paths
from kube.client import Client
from kube.errors import ApiError
from sim.kubelet.release import Release, release
from tests.cluster.cluster import RealCluster
from tests.cluster.images import BUSYBOX
from tests.cluster.scenes import restarts
from tests.patience import eventually
from tests.sim.kubelet.device_plugin_server import DevicePluginServer, pod_resources

JsonObject = dict[str, Any]
NAMESPACE: Final = "default"
KUBELET_WAIT_S: Final = 90.0
"""For what kubelet does at its own pace, a restart included."""
_ENV: Final = "env; echo; mount | sed 's/^/mount /'; ls -l /dev | sed 's/^/dev /'; sleep 1000"


class DeviceStage:
    """What a test does on the node; each test has a resource of its own."""

    def __init__(self, cluster: RealCluster, client: Client, root: Path, resource: str) -> None:
        self.cluster = cluster
        self.client = client
        self.root = root
        self.resource = resource
        self.release: Release = release(cluster.options.minor)
        self.node = cluster.node_names[0]
        self.folder = root / "device-plugins"
        self.plugins: list[DevicePluginServer] = []
        self._pods: list[str] = []

    def plugin(self, **settings: Any) -> DevicePluginServer:
        """Start a plugin and wait until the node offers its devices."""
        plugin = self.server(**settings).start()
        healthy = sum(health == "Healthy" for health in plugin.devices.values())
        self.offers(healthy, len(plugin.devices))
        return plugin

    def server(self, **settings: Any) -> DevicePluginServer:
        """Return a plugin that does nothing yet."""
        name = self.resource.partition("/")[2]
        chosen = {"resource": self.resource, "endpoint": f"{name}.sock", **settings}
        plugin = DevicePluginServer(self.root, **chosen)
        self.plugins.append(plugin)
        return plugin

    def offers(self, allocatable: int, capacity: int) -> None:
        """Wait until the node's status says so."""
        wanted = (str(allocatable), str(capacity))
        eventually(lambda: self.offered() == wanted, KUBELET_WAIT_S)

    def offered(self) -> tuple[str | None, str | None]:
        """Return what is allocatable and the capacity, as the node's status says it."""
        status = json.loads(self.client.get(paths.nodes(self.node)))["status"]
        return status["allocatable"].get(self.resource), status["capacity"].get(self.resource)

    def container(self, number: int = 1, *, name: str = "app", **more: Any) -> JsonObject:
        """Return a container that asks for *number* devices, and tells what it got in its log."""
        return {
            "name": name,
            "image": BUSYBOX,
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", _ENV],
            "resources": {"limits": {self.resource: str(number)}} if number else {},
            **more,
        }

    def pod(
        self, name: str, *containers: JsonObject, init: tuple[JsonObject, ...] = (), **spec: Any
    ) -> None:
        """Create a pod on the node, past the scheduler."""
        brief = {"command": ["true"]}
        inits = [one if "restartPolicy" in one else {**one, **brief} for one in init]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "nodeName": self.node,
                "initContainers": inits,
                "containers": list(containers),
                **spec,
            },
        }
        self.client.create(paths.pods(NAMESPACE), body)
        self._pods.append(name)

    def status(self, name: str) -> JsonObject:
        """Return a pod's status."""
        found: JsonObject = json.loads(self.client.get(paths.pods(NAMESPACE, name)))["status"]
        return found

    def reaches(self, name: str, phase: str) -> JsonObject:
        """Wait until a pod is in *phase*, and return its status."""
        eventually(lambda: self.status(name).get("phase") == phase, KUBELET_WAIT_S)
        return self.status(name)

    def output(self, name: str, container: str = "app") -> str:
        """Return what a container has said, all of it."""

        def said() -> str:
            text = self.cluster.kubectl("logs", name, "-c", container)
            return text if "\ndev " in text else ""

        return eventually(said)

    def env(self, name: str, container: str = "app") -> dict[str, str]:
        """Return the environment of a container."""
        lines = self.output(name, container).partition("\n\n")[0].splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def ids(self, name: str, container: str = "app") -> list[str]:
        """Return the ids that the plugin of the tests has named."""
        return sorted(self.env(name, container)["IDS"].split(","))

    def events(self, pod: str, reason: str) -> list[str]:
        """Return the messages of the events of *pod* with *reason*."""
        events = json.loads(self.client.get(paths.events(NAMESPACE)))["items"]
        return [
            one["message"]
            for one in events
            if one["involvedObject"].get("name") == pod and one["reason"] == reason
        ]

    def gone(self, *names: str) -> None:
        """Delete pods and wait until kubelet has let them go."""
        for name in names:
            self.client.delete(paths.pods(NAMESPACE, name))
        for name in names:
            self._end(name)

    def restart_kubelet(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """End kubelet, do something, and wait until the next one listens for plugins."""
        restarts.end(self.cluster, restarts.KUBELET)
        meanwhile()
        before_ns = (self.folder / "kubelet.sock").lstat().st_mtime_ns
        restarts.start(self.cluster, restarts.KUBELET)
        eventually(lambda: self._made_ns() > before_ns, KUBELET_WAIT_S)

    def ask(self, method: str, request: Any) -> Any:
        """Call kubelet's PodResources."""
        return pod_resources(self.root, method, request)

    def clear(self) -> None:
        """Leave nothing."""
        self.gone(*list(self._pods))
        for plugin in self.plugins:
            plugin.stop()

    def _end(self, name: str) -> None:
        eventually(lambda: not self._exists(name), KUBELET_WAIT_S)
        self._pods.remove(name)

    def _exists(self, name: str) -> bool:
        try:
            self.client.get(paths.pods(NAMESPACE, name))
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _made_ns(self) -> int:
        try:
            return (self.folder / "kubelet.sock").lstat().st_mtime_ns
        except FileNotFoundError:
            return 0


@contextmanager
def short(path: Path) -> Iterator[Path]:
    """Give *path* a name that leaves room for a socket's name within 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="gs") as folder:
        link = Path(folder, "k")
        link.symlink_to(path)
        yield link
