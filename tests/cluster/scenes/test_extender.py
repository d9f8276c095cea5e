"""Scenes on the way of older clusters: kube-scheduler asks the extender where pods may go."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from kube import paths
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.extenders import (
    Extenders,
    a_gpu,
    device_plugins,
    given,
    legacy,
    register,
    running_extender,
    unregister,
    used,
)
from tests.cluster.scenes.stage import Stage
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

_MEMORY_MIB: Final = 40960
_SHARES: Final = 10
_GPUS: Final = 4
_BURST: Final = 40
_BOUND_S: Final = 120.0


@pytest.fixture(scope="module")
def extenders(driver: Driver) -> Iterator[Extenders]:
    """Return the extender and its scheduler, at work."""
    with running_extender(driver.cluster) as extenders:
        yield extenders


@pytest.fixture
def nodes(stage: Stage, extenders: Extenders) -> Iterator[list[str]]:
    """Return two virtual nodes with four GPUs each, and device plugins."""
    nodes = list(stage.driver.cluster.node_names[1:3])
    for node in nodes:
        gpus = [
            a_gpu(f"GPU-{node}-{index}", index, memory_mib=_MEMORY_MIB, count=_SHARES)
            for index in range(_GPUS)
        ]
        register(stage.client, node, gpus)
    with device_plugins(stage.driver.cluster, nodes):
        yield nodes
    for node in nodes:
        unregister(stage.client, node)


def bound(stage: Stage) -> list[Any]:
    """Return the pods of the stage that have a node."""
    items = json.loads(stage.client.get(paths.pods("default")))["items"]
    return [each for each in items if each["spec"].get("nodeName")]


@pytest.mark.scene("the extender places a pod by HAMi's annotations")
def test_one_pod(stage: Stage, nodes: list[str], extenders: Extenders) -> None:
    """The scheduler binds through the extender, which writes what device plugins read."""
    stage.create(legacy("one", gpu="1", gpumem="3k", gpucores="30"))
    eventually(lambda: bound(stage), _BOUND_S)
    (pod,) = bound(stage)
    annotations = pod["metadata"]["annotations"]
    ((uuid, mib, cores),) = given(pod)
    assert (mib, cores) == (3000, 30)
    assert pod["spec"]["nodeName"] in uuid
    assert annotations["hami.io/vgpu-node"] == pod["spec"]["nodeName"]
    assert pod["metadata"]["labels"]["hami.io/vgpu-node"] == pod["spec"]["nodeName"]
    eventually(lambda: _phase(stage, "one") == "success")
    stage.create(legacy("large", gpu="1", gpumem="50k"))
    assert "CardInsufficientMemory" in stage.pending("large")


def _phase(stage: Stage, name: str) -> str:
    return str(stage.pod(name)["metadata"]["annotations"]["hami.io/bind-phase"])


@pytest.mark.scene("forty pods at once on one node, by the extender")
def test_burst(stage: Stage, nodes: list[str], extenders: Extenders) -> None:
    """All are bound and nothing is given twice, although the extender is killed in between."""
    with ThreadPoolExecutor(8) as threads:
        pods = [
            legacy(f"burst-{number}", node=nodes[0], gpu="1", gpumem="4k")
            for number in range(_BURST)
        ]
        list(threads.map(stage.create, pods))
    eventually(lambda: len(bound(stage)) >= _BURST // 4, _BOUND_S)
    extenders.kill("extender")
    extenders.start_extender()
    eventually(extenders.ready, _BOUND_S)
    eventually(lambda: len(bound(stage)) == _BURST, _BOUND_S)
    taken = used(bound(stage))
    assert len(taken) == _GPUS
    assert all(shares == _SHARES for shares, _, _ in taken.values()), taken
    assert all(mib <= _MEMORY_MIB for _, mib, _ in taken.values()), taken
    stage.create(legacy("one-too-many", node=nodes[0], gpu="1", gpumem="100"))
    assert stage.pending("one-too-many")


@pytest.mark.scene("the scheduler beside the extender is replaced")
def test_other_leader(stage: Stage, nodes: list[str], extenders: Extenders) -> None:
    """While nobody leads pods wait; the next leader finds what is taken and goes on."""
    stage.create(legacy("before", node=nodes[0], gpu="1", gpumem="30k"))
    eventually(lambda: len(bound(stage)) == 1, _BOUND_S)
    extenders.kill("hami-scheduler")
    stage.create(legacy("meanwhile", node=nodes[0], gpu="4", gpumem="30k"))
    extenders.start_scheduler()
    assert "CardInsufficientMemory" in stage.pending("meanwhile")
    stage.create(legacy("after", node=nodes[0], gpu="3", gpumem="30k"))
    eventually(lambda: len(bound(stage)) == 2, _BOUND_S)
    assert all(mib <= _MEMORY_MIB for _, mib, _ in used(bound(stage)).values())
