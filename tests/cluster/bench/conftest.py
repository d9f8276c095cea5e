"""A cluster of its own for what is measured with nodes that are objects alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.figures import show_machine
from tests.cluster.bench.fleet_cluster import FleetCluster
from tests.cluster.components import Options
from tests.cluster.conftest import minor_of
from tests.cluster.up import bring_up


@pytest.fixture(scope="module")
def fleet(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[FleetCluster]:
    """Return a cluster without nodes that grows; the thread is in its network."""
    options = Options(minor=minor_of(request.config), nodes=1)
    with bring_up(session_folder / "fleet", options) as cluster, cluster.network():
        yield FleetCluster.take(cluster)


@pytest.fixture(autouse=True)
def _machine() -> None:
    """Begin each measurement's figures with the machine's."""
    show_machine()
