"""What HAMi v2.10.0's scheduler wrote when it bound, on a program that holds its lock of nodes."""

import json
import re
import threading
from collections.abc import Iterator
from typing import Final

import pytest

from kube.client import MERGE_PATCH
from kube.paths import namespaces, nodes, pods
from tests.extender.recorded import Json, scenarios
from tests.extender.recorded_served import Served, served
from tests.patience import eventually

LOCK: Final = "hami.io/mutex.lock"
TEAM: Final = "team"


@pytest.fixture
def locking() -> Iterator[Served]:
    """Run a program that takes locks, beside a node with two GPUs."""
    recorded = next(each for each in scenarios() if each.file == "two-cards")
    with served(node_lock=True) as running:
        running.client.create(namespaces(), {"metadata": {"name": TEAM}})
        said = recorded.nodes[0]
        register = {key: json.dumps(value) for key, value in said["register"].items()}
        status = {"allocatable": said["allocatable"], "capacity": said["allocatable"]}
        metadata = {"name": "gpu1", "annotations": register}
        running.client.create(nodes(), {"metadata": metadata, "status": status})
        yield running


def _pod(running: Served, name: str, *, init: bool = False) -> Json:
    """Make a pod with a small share, and have a node chosen for it."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3k", "nvidia.com/gpucores": "30"}
    asking = {"name": "gpu", "image": "none", "resources": {"limits": limits}}
    plain = {"name": "plain", "image": "none"}
    spec = {"initContainers": [asking], "containers": [plain]} if init else {"containers": [asking]}
    body = {"metadata": {"name": name, "namespace": TEAM}, "spec": spec}
    made: Json = json.loads(running.client.create(pods(TEAM), body))
    question = json.dumps({"Pod": made, "Nodes": None, "NodeNames": ["gpu1"]}).encode()
    eventually(lambda: json.loads(running.ask("/filter", question))["NodeNames"] == ["gpu1"])
    return made


def _bind(running: Served, pod: Json) -> str:
    """Bind, once the program knows the pod, and return the error."""
    metadata = pod["metadata"]
    said = {
        "PodName": metadata["name"],
        "PodNamespace": TEAM,
        "PodUID": metadata["uid"],
        "Node": "gpu1",
    }
    answers: list[str] = []

    def known() -> bool:
        answers.append(json.loads(running.ask("/bind", json.dumps(said).encode()))["Error"])
        return "not found" not in answers[-1]

    eventually(known)
    return answers[-1]


def _lock(running: Served) -> str | None:
    node = json.loads(running.client.get(nodes("gpu1")))
    found: str | None = node["metadata"]["annotations"].get(LOCK)
    return found


def _release(running: Served) -> None:
    """Take the lock away, as a device plugin does when it has handed the devices out."""
    patch = {"metadata": {"annotations": {LOCK: None}}}
    running.client.patch(nodes("gpu1"), patch, content_type=MERGE_PATCH)


def test_binding_writes_what_hami_writes(locking: Served) -> None:
    """The node has the lock with its owner, the pod its phase and devices, and is bound."""
    pod = _pod(locking, "p1")
    assert not _bind(locking, pod)
    lock = _lock(locking)
    assert lock is not None
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ,{TEAM},p1", lock)
    found = json.loads(locking.client.get(pods(TEAM, "p1")))
    annotations = found["metadata"]["annotations"]
    assert annotations["hami.io/bind-phase"] == "allocating"
    assert annotations["hami.io/bind-time"].isdecimal()
    assert annotations["hami.io/vgpu-time"].isdecimal()
    assert annotations["hami.io/vgpu-devices-to-allocate"] == "B,NVIDIA,3000,30:;"
    assert annotations["hami.io/vgpu-devices-allocated"] == "B,NVIDIA,3000,30:;"
    assert found["metadata"]["labels"]["hami.io/vgpu-node"] == "gpu1"
    assert found["spec"]["nodeName"] == "gpu1"


def test_next_binding_waits_for_the_lock(locking: Served) -> None:
    """Where HAMi fails with a contention, the binding ends once the device plugin is done."""
    assert not _bind(locking, _pod(locking, "p1"))
    second, answers = _pod(locking, "p2"), list[str]()
    binding = threading.Thread(target=lambda: answers.append(_bind(locking, second)))
    binding.start()
    binding.join(0.3)
    assert not answers
    _release(locking)
    binding.join(20)
    assert answers == [""]
    lock = _lock(locking)
    assert lock is not None
    assert lock.endswith(f",{TEAM},p2")


def test_pod_that_is_not_there_is_not_bound(locking: Served) -> None:
    """HAMi's words for a pod that nobody knows."""
    said = {"PodName": "zz", "PodNamespace": TEAM, "PodUID": "u", "Node": "gpu1"}
    assert json.loads(locking.ask("/bind", json.dumps(said).encode())) == {
        "Error": 'pod "zz" not found'
    }
    assert _lock(locking) is None


def test_gpu_in_an_init_container_takes_the_lock(locking: Served) -> None:
    """HAMi binds such a pod without the lock by which its plugin finds the pod."""
    assert not _bind(locking, _pod(locking, "p1", init=True))
    lock = _lock(locking)
    assert lock is not None
    assert lock.endswith(f",{TEAM},p1")
