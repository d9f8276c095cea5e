"""The driver for all scenes of a session, and a stage for each."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import RealCluster
from tests.cluster.scenes.driver import Driver, running_driver
from tests.cluster.scenes.stage import Stage, stage_of


@pytest.fixture(scope="session")
def driver(cluster: RealCluster) -> Iterator[Driver]:
    """Return the driver, running on every node."""
    with running_driver(cluster) as driver:
        yield driver


@pytest.fixture
def stage(driver: Driver) -> Iterator[Stage]:
    """Return an empty stage."""
    with stage_of(driver) as stage:
        yield stage
