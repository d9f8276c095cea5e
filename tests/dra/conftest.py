"""An API server with one claim, and a node that prepares it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dra.builders import a_claim, a_gpu, a_result
from tests.dra.nodes import Node
from tests.fakes.claim_server import ClaimServer


@pytest.fixture
def server() -> Iterator[ClaimServer]:
    """Run an API server with one claim for 3000 MiB of GPU 0."""
    with ClaimServer(a_claim(a_result(a_gpu(0), "3000Mi"))) as server:
        yield server


@pytest.fixture
def node(tmp_path: Path, server: ClaimServer) -> Iterator[Node]:
    """Run a plugin on a node with two GPUs."""
    node = Node(tmp_path, server)
    yield node
    node.close()
