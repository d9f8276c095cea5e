"""A node of the extender's cluster loses power, its name and a GPU, and nothing gets stuck.

The node is an object of this scene alone, for agents have theirs on the others.
"""

import contextlib
import datetime as dt
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kube import paths
from kube.client import MERGE_PATCH, Client
from kube.errors import NotFoundError
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
    unregister,
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


@pytest.fixture(scope="module")
def extenders(driver: Driver) -> Iterator[Extenders]:
    """Return the extender and its scheduler, at work."""
    with running_extender(driver.cluster) as extenders:
        yield extenders


@pytest.fixture
def node(stage: Stage, extenders: Extenders) -> Iterator[str]:
    """Return a node with two GPUs and a device plugin, which is gone afterwards."""
    switch_on(stage.client, "GPU-a", "GPU-b")
    with device_plugins(stage.driver.cluster, [_NODE]):
        yield _NODE
    stage.clear()
    drop(stage.client)
    with contextlib.suppress(NotFoundError):
        stage.client.delete(paths.leases("kube-node-lease", _NODE))


def switch_on(client: Client, *uuids: str) -> None:
    """Have kubelet and device plugin say that all is well; the node is made if it is not there."""
    now = dt.datetime.now(dt.UTC)
    with contextlib.suppress(NotFoundError):
        client.delete(paths.leases("kube-node-lease", _NODE))
    renew(client, _NODE, _ADDRESS, seconds(now))
    renew(client, _NODE, _ADDRESS, seconds(now))
    gpus = [
        a_gpu(uuid, index, memory_mib=_MEMORY_MIB, count=10) for index, uuid in enumerate(uuids)
    ]
    register(client, _NODE, gpus)


def switch_off(client: Client) -> None:
    """Have the node not ready, and nothing allocatable once it is again."""
    condition = {"type": "Ready", "status": "False", "reason": "PowerIsOff"}
    status = {"conditions": [condition], "allocatable": {"nvidia.com/gpu": "0"}}
    client.patch(paths.nodes(_NODE, "status"), {"status": status}, content_type=MERGE_PATCH)


def drop(client: Client) -> None:
    """Delete the node."""
    with contextlib.suppress(NotFoundError):
        client.delete(paths.nodes(_NODE))


def run(stage: Stage, name: str) -> str:
    """Run a pod on a whole GPU and return which."""
    stage.create(legacy(name, node=_NODE, **_WHOLE))
    return gpu_of(stage, name)


def gpu_of(stage: Stage, name: str) -> str:
    """Return which GPU a pod has, once the device plugin has handed it out."""
    eventually(lambda: _annotations(stage, name).get(PHASE) == "success", _BOUND_S)
    ((uuid, _, _),) = given(stage.pod(name))
    return uuid


def _annotations(stage: Stage, name: str) -> dict[str, Any]:
    return dict(stage.pod(name)["metadata"].get("annotations") or {})


@pytest.mark.scene("a node of the extender loses power, a GPU and its object")
def test_power_cycle(stage: Stage, node: str, extenders: Extenders) -> None:
    """Pods keep their GPUs by UUID, a lock left behind is taken over, and what is gone is free."""
    client = stage.client
    first, second = run(stage, "first"), run(stage, "second")
    assert {first, second} == {"GPU-a", "GPU-b"}

    switch_off(client)
    left_behind = f"{seconds(dt.datetime.now(dt.UTC))},default,evicted"
    lock = {"metadata": {"annotations": {LOCK: left_behind}}}
    client.patch(paths.nodes(node), lock, content_type=MERGE_PATCH)
    stage.force_delete("second")
    stage.create(legacy("third", node=node, **_WHOLE))
    assert stage.pending("third")

    switch_on(client, "GPU-b", "GPU-a")
    assert gpu_of(stage, "third") == second

    drop(client)
    switch_on(client, second, "GPU-new")
    stage.create(legacy("fourth", node=node, **_WHOLE))
    eventually(lambda: f"uses unknown {first}" in stage.pending("fourth"), _BOUND_S)
    stage.force_delete("first")
    assert gpu_of(stage, "fourth") == "GPU-new"
    assert LOCK not in json.loads(client.get(paths.nodes(node)))["metadata"]["annotations"]
    unregister(client, node)
