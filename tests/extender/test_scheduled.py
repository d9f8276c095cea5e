"""A simulated scheduler, the extender and what stands for a device plugin fill a node together."""

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from kube.client import MERGE_PATCH, Client
from kube.errors import KubeError
from kube.paths import nodes, pods
from sim.cluster import Cluster
from tests.extender.recorded_served import Served, client_of
from tests.patience import eventually
from tests.ports import free_port

Json = dict[str, Any]

LOCK: Final = "hami.io/mutex.lock"
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
GPUS: Final = 4
SLOTS: Final = 10
_LOOK_S: Final = 0.01
_PATIENCE_S: Final = 60.0


class Plugin:
    """Hands devices out as HAMi's plugin does: by the lock, which it takes away when it is done."""

    def __init__(self, client: Client) -> None:
        self.handed_out: list[str] = []
        self._client = client
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                self._look()
            except KubeError:  # such as a conflict: it looks again
                continue

    def _look(self) -> None:
        node = json.loads(self._client.get(nodes("a")))
        lock = node["metadata"]["annotations"].get(LOCK)
        if lock is None:
            return
        _, namespace, name = lock.split(",")
        pod = json.loads(self._client.get(pods(namespace, name)))
        if not pod["spec"].get("nodeName"):
            return
        assert pod["metadata"]["annotations"][TO_ALLOCATE]
        done = {TO_ALLOCATE: ";", "hami.io/bind-phase": "success"}
        self._patch(pods(namespace, name), done)
        self._patch(nodes("a"), {LOCK: None})
        self.handed_out.append(name)

    def _patch(self, path: str, annotations: Mapping[str, str | None]) -> None:
        body = {"metadata": {"annotations": dict(annotations)}}
        self._client.patch(path, body, content_type=MERGE_PATCH)


class Scene:
    """A cluster of one node with four GPUs, and whoever has to do with them."""

    def __init__(self, cluster: Cluster, port: int, offered: int) -> None:
        self.client = client_of(cluster, "admin")
        self._cluster, self._port = cluster, port
        self.client.create(nodes(), _node(offered))
        self.plugin = Plugin(client_of(cluster, "plugin"))
        self.extender = Served(cluster, port=port, node_lock=True)

    def close(self) -> None:
        """End all."""
        self.extender.close()
        self.plugin.stop()
        self.client.close()

    def restart(self) -> None:
        """End the extender, and start another in its place."""
        self.extender.close()
        self.extender = Served(self._cluster, port=self._port, node_lock=True)

    def add(self, name: str, **spec: Any) -> None:
        """Add a pod that asks for a tenth of a GPU."""
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4k", "nvidia.com/gpucores": "10"}
        container = {"name": "gpu", "image": "none", "resources": {"limits": limits}}
        spec = {"schedulerName": "gpus", "containers": [container], **spec}
        self.client.create(pods("default"), {"metadata": {"name": name}, "spec": spec})

    def end(self, name: str) -> None:
        """Have a pod gone, as kubelet does when it has stopped it."""
        api = self._cluster.server.api
        self._cluster.run(api.delete("pods", name, "default", grace_period_s=0))

    def bound(self) -> list[Json]:
        """Return the pods that have a node."""
        items = json.loads(self.client.get(pods("default")))["items"]
        return [item for item in items if item["spec"].get("nodeName")]

    def reason(self, name: str) -> str:
        """Return why a pod waits."""
        pod = json.loads(self.client.get(pods("default", name)))
        conditions = (pod.get("status") or {}).get("conditions") or ()
        return next((it["message"] for it in conditions if it["status"] == "False"), "")


def _node(offered: int) -> Json:
    devices = [
        {
            "id": f"GPU-{index}",
            "index": index,
            "count": SLOTS,
            "devmem": 40960,
            "devcore": 100,
            "type": "NVIDIA A100-SXM4-40GB",
            "mode": "hami-core",
            "health": True,
        }
        for index in range(GPUS)
    ]
    there = {"cpu": "64", "pods": "250", "nvidia.com/gpu": str(offered)}
    annotations = {"hami.io/node-nvidia-register": json.dumps(devices)}
    metadata = {"name": "a", "annotations": annotations}
    return {"metadata": metadata, "status": {"capacity": there, "allocatable": there}}


@contextmanager
def _playing(directory: Path, offered: int = 80) -> Iterator[Scene]:
    port = free_port()
    names = ("gpu", "gpumem", "gpucores")
    managed = [
        {"name": f"nvidia.com/{name}", "ignoredByScheduler": name != "gpu"} for name in names
    ]
    extender = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "httpTimeout": "30s",
        "managedResources": managed,
    }
    scheduler = {"profiles": [{"schedulerName": "gpus"}], "extenders": [extender]}
    with Cluster(directory, [], "1.34", schedulers=[scheduler]) as cluster:
        scene = Scene(cluster, port, offered)
        try:
            yield scene
        finally:
            scene.close()


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "over a restart"])
def test_burst_on_one_node_fills_it_exactly(tmp_path: Path, *, restarts: bool) -> None:
    """Forty pods get a tenth of a GPU each, one lock at a time; the next one waits and says why."""
    with _playing(tmp_path / "c") as scene:
        for number in range(GPUS * SLOTS):
            scene.add(f"p{number:02d}")
        if restarts:
            eventually(lambda: len(scene.bound()) >= SLOTS, _PATIENCE_S)
            scene.restart()
        eventually(lambda: len(scene.bound()) == GPUS * SLOTS, _PATIENCE_S)
        texts = [pod["metadata"]["annotations"][ALLOCATED] for pod in scene.bound()]
        wanted = {f"GPU-{index},NVIDIA,4000,10:;": SLOTS for index in range(GPUS)}
        assert Counter(texts) == wanted
        eventually(lambda: len(scene.plugin.handed_out) == GPUS * SLOTS)
        assert len(set(scene.plugin.handed_out)) == GPUS * SLOTS
        scene.add("late")
        full = f"{GPUS}/{GPUS} CardTimeSlicingExhausted"
        assert full in eventually(lambda: scene.reason("late"), _PATIENCE_S)


def test_slots_of_kubelet_are_counted_too(tmp_path: Path) -> None:
    """The fourth pod of three slots waits, whoever took them and whatever the GPUs have left."""
    with _playing(tmp_path / "c", offered=3) as scene:
        scene.add("foreign", schedulerName="another", nodeName="a")
        scene.add("p1")
        scene.add("p2")
        eventually(lambda: len(scene.bound()) == 3, _PATIENCE_S)
        scene.add("late")
        said = eventually(lambda: scene.reason("late"), _PATIENCE_S)
        assert "Insufficient nvidia.com/gpu" in said
        scene.client.delete(pods("default", "p1"))
        assert "late" not in {pod["metadata"]["name"] for pod in scene.bound()}
        scene.end("p1")
        eventually(lambda: "late" in {pod["metadata"]["name"] for pod in scene.bound()}, 60.0)
