"""A node of the extender's cluster loses power, its name and a GPU, and nothing gets stuck.

The node is an object of this scene alone, for agents have theirs on the others.
"""

import contextlib
import datetime as dt
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.errors import KubeError, NotFoundError
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.extenders import (
    LOCK,
    PHASE,
    Extenders,
    a_gpu,
    device_plugins,
    given,
    legacy,
    register,
    running_extender,
)
from tests.cluster.scenes.stage import Stage
from tests.cluster.virtual_nodes import renew, seconds
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

_NODE: Final = "gpu-old"
_ADDRESS: Final = "10.254.0.1"
_WHOLE: Final = {"gpu": "1", "gpumem": "40960", "gpucores": "100"}
_MEMORY_MIB: Final = 40960
_BOUND_S: Final = 120.0
_RENEWED_S: Final = 5.0
_LEASE: Final = paths.leases("kube-node-lease", _NODE)


@pytest.fixture(scope="module")
def extenders(driver: Driver) -> Iterator[Extenders]:
    """Return the extender and its scheduler, at work."""
    with running_extender(driver.cluster) as extenders:
        yield extenders


class Power:
    """Keeps the node ready while it is on, as its kubelet would."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._since = seconds(dt.datetime.now(dt.UTC))
        self._is_on, self._ended = threading.Event(), threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def on(self, *uuids: str) -> None:
        """Have kubelet and device plugin say that all is well; a node is made if there is none."""
        with self._turn:
            with contextlib.suppress(NotFoundError):
                self._client.delete(_LEASE)
            # Nothing has a status before it is there.
            for _ in range(2):
                renew(self._client, _NODE, _ADDRESS, self._since)
        gpus = [
            a_gpu(uuid, index, memory_mib=_MEMORY_MIB, count=10) for index, uuid in enumerate(uuids)
        ]
        register(self._client, _NODE, gpus)
        self._is_on.set()

    def off(self) -> None:
        """Have the node not ready, and wait until that keeps pods away."""
        self._is_on.clear()
        condition = {"type": "Ready", "status": "False", "reason": "PowerIsOff"}
        path = paths.nodes(_NODE, "status")
        with self._turn:
            status = {"status": {"conditions": [condition]}}
            self._client.patch(path, status, content_type=MERGE_PATCH)
        eventually(self._is_tainted)

    def drop(self) -> None:
        """Delete the node."""
        self._is_on.clear()
        with self._turn, contextlib.suppress(NotFoundError):
            self._client.delete(paths.nodes(_NODE))

    def close(self) -> None:
        """Leave nothing."""
        self._ended.set()
        self._thread.join()
        self.drop()
        with contextlib.suppress(NotFoundError):
            self._client.delete(_LEASE)

    def _wake(self) -> None:
        # kube-scheduler asks as soon as its own watch shows that something is free, which may be
        # before the extender's does, and then not before the next event, or for five minutes.
        labels = {"gpuslice.test/renewed": str(int(time.time()))}
        body = {"metadata": {"labels": labels}}
        self._client.patch(paths.nodes(_NODE), body, content_type=MERGE_PATCH)

    def _is_tainted(self) -> bool:
        return bool(json.loads(self._client.get(paths.nodes(_NODE)))["spec"].get("taints"))

    def _keep(self) -> None:
        while not self._ended.wait(_RENEWED_S):
            with self._turn, contextlib.suppress(KubeError):
                if self._is_on.is_set():
                    renew(self._client, _NODE, _ADDRESS, self._since)
                    self._wake()


@pytest.fixture
def power(stage: Stage, extenders: Extenders) -> Iterator[Power]:
    """Return the switch of a node with two GPUs and a device plugin, which is gone afterwards."""
    power = Power(stage.client)
    try:
        power.on("GPU-a", "GPU-b")
        with device_plugins(stage.driver.cluster, [_NODE]):
            yield power
        stage.clear()
    finally:
        power.close()


def run(stage: Stage, name: str) -> str:
    """Run a pod on a whole GPU and return which."""
    stage.create(legacy(name, node=_NODE, **_WHOLE))
    return gpu_of(stage, name)


def gpu_of(stage: Stage, name: str) -> str:
    """Return which GPU a pod has, once the device plugin has handed it out."""
    eventually(lambda: _annotations(stage, name).get(PHASE) == "success", _BOUND_S)
    ((uuid, _, _),) = given(stage.pod(name))
    return uuid


def _is_locked(client: Client) -> bool:
    return LOCK in json.loads(client.get(paths.nodes(_NODE)))["metadata"]["annotations"]


def _annotations(stage: Stage, name: str) -> dict[str, Any]:
    return dict(stage.pod(name)["metadata"].get("annotations") or {})


@pytest.mark.scene("a node of the extender loses power, a GPU and its object")
def test_power_cycle(stage: Stage, power: Power) -> None:
    """Pods keep their GPUs by UUID, a lock left behind is taken over, and what is gone is free."""
    client = stage.client
    first, second = run(stage, "first"), run(stage, "second")
    assert {first, second} == {"GPU-a", "GPU-b"}

    power.off()
    left_behind = f"{seconds(dt.datetime.now(dt.UTC))},default,evicted"
    lock = {"metadata": {"annotations": {LOCK: left_behind}}}
    client.patch(paths.nodes(_NODE), lock, content_type=MERGE_PATCH)
    stage.force_delete("second")
    stage.create(legacy("third", node=_NODE, **_WHOLE))
    assert "untolerated taint" in stage.pending("third")

    power.on("GPU-b", "GPU-a")
    assert gpu_of(stage, "third") == second

    power.drop()
    power.on(second, "GPU-new")
    stage.create(legacy("fourth", node=_NODE, **_WHOLE))
    eventually(lambda: f"uses unknown {first}" in stage.pending("fourth"), _BOUND_S)
    stage.force_delete("first")
    assert gpu_of(stage, "fourth") == "GPU-new"
    eventually(lambda: not _is_locked(client))
