"""One node for all benchmarks, with bytecode compiled by first starts that count for nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.figures import show_machine
from tests.bench.kubelet import Kubelet
from tests.bench.node import Agent, Node, forget, made_node, prepared_cluster


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Build a node with eight GPUs."""
    with made_node(tmp_path_factory.mktemp("node")) as node:
        for optimize in ("", "2"):
            with prepared_cluster(node, []) as cluster:
                root = node.directory / f"first{optimize}"
                agent = Agent(node, root, cluster, {"PYTHONOPTIMIZE": optimize})
                try:
                    Kubelet(agent.registry).close()
                finally:
                    agent.process.stop()
        yield node


@pytest.fixture
def kubelet_roots(tmp_path: Path) -> Iterator[Path]:
    """Return a directory for kubelets' roots; nothing stays mounted on it."""
    yield tmp_path
    forget(tmp_path)


@pytest.fixture(autouse=True)
def _machine() -> None:
    """Begin each benchmark's figures with the machine's."""
    show_machine()
