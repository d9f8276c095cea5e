"""A node for each test."""

from pathlib import Path

import pytest

from tests.hami.monitor.nodes import Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Return a node without pods."""
    return Node(tmp_path)
