"""Tests of what holds for a cluster of ours and for that of KUBECONFIG."""

import json

import pytest

from kube import paths
from tests.cluster.cluster import RealCluster
from tests.cluster.existing import ExistingCluster


@pytest.mark.cluster(nodes=False)
def test_client_and_kubectl_see_the_same(any_cluster: RealCluster | ExistingCluster) -> None:
    """The test's own process and kubectl reach one API server."""
    with any_cluster.client() as client:
        nodes = json.loads(client.get(paths.nodes()))["items"]
    names = {node["metadata"]["name"] for node in nodes}
    assert names == set(any_cluster.node_names)
    assert any_cluster.kubectl("get", "nodes", "-o", "name").split() == sorted(
        f"node/{name}" for name in names
    )
