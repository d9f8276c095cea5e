"""The extender on a release without DRA in v1: its real kube-scheduler, and no driver at all."""

import json
from typing import Final

import pytest

from kube import paths
from kube.client import Client
from tests.cluster.cluster import RealCluster
from tests.cluster.scenes.agents import NAMESPACE
from tests.cluster.scenes.extenders import (
    Manifest,
    a_gpu,
    device_plugins,
    legacy,
    register,
    running_extender,
    unregister,
    used,
)
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

_MEMORY_MIB: Final = 40960
_SHARES: Final = 10
_BOUND_S: Final = 120.0


def bound(client: Client) -> list[Manifest]:
    """Return the pods that the extender has bound."""
    items = json.loads(client.get(paths.pods("default")))["items"]
    return [each for each in items if "hami.io/vgpu-node" in each["metadata"].get("labels", {})]


def test_burst_on_an_older_release(cluster: RealCluster) -> None:
    """Twice as many pods as one GPU has shares are bound, and fill two GPUs exactly."""
    if cluster.options.minor != "1.33":
        pytest.skip("newer releases have scenes")
    node = cluster.node_names[1]
    names = [f"burst-{number}" for number in range(2 * _SHARES)]
    with cluster.client() as client:
        client.create(paths.namespaces(), {"metadata": {"name": NAMESPACE}})
        gpus = [
            a_gpu(f"GPU-{node}-{index}", index, memory_mib=_MEMORY_MIB, count=_SHARES)
            for index in range(2)
        ]
        with running_extender(cluster), device_plugins(cluster, [node]):
            register(client, node, gpus)
            for name in names:
                client.create(paths.pods("default"), legacy(name, node=node, gpu="1", gpumem="4k"))
            eventually(lambda: len(bound(client)) == len(names), _BOUND_S)
            taken = used(bound(client))
            for name in names:
                path = f"{paths.pods('default', name)}?gracePeriodSeconds=0"
                cluster.kubectl("delete", "--raw", path)
        unregister(client, node)
    assert {shares for shares, _, _ in taken.values()} == {_SHARES}
    assert all(mib <= _MEMORY_MIB for _, mib, _ in taken.values())
