"""One node for all benchmarks, with bytecode compiled by a first start that counts for nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.kubelet import Kubelet
from tests.bench.node import Agent, Node, forget, make_node, prepared_cluster


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Build a node with eight GPUs."""
    node = make_node(tmp_path_factory.mktemp("node"))
    with prepared_cluster(node, []) as cluster:
        agent = Agent(node, node.directory / "first", cluster)
        try:
            Kubelet(agent.registry).close()
        finally:
            agent.process.stop()
    return node


@pytest.fixture
def kubelet_roots(tmp_path: Path) -> Iterator[Path]:
    """Return a directory for kubelets' roots; nothing stays mounted on it."""
    yield tmp_path
    forget(tmp_path)
