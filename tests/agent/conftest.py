"""A scene for each test."""

from collections.abc import Iterator

import pytest

from tests.agent.scene import Scene, scene


@pytest.fixture
def stage() -> Iterator[Scene]:
    """Make a node with three GPUs, one in MIG mode, and a control plane; no agent yet."""
    with scene() as made:
        yield made
