"""Fixtures of the device plugin's tests."""

from collections.abc import Iterator

import pytest

from tests.fakes.api_server import serving
from tests.hami.plugin.placed import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Give a cluster with one node and no pods."""
    with serving() as server:
        yield Cluster(server)
