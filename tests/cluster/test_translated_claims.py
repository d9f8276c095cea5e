"""Translated claims on a real scheduler, which gives what the simulated one gives."""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import RealCluster
from tests.cluster.vectors.player import Player
from tests.sim.scheduler.vector import with_stars
from tests.webhook.claimcases import CASES, ClaimCase
from tests.webhook.translating import allocate

pytestmark = pytest.mark.cluster
_COUNTS_ARE_DISTINCT = ("1.36", "1.37")


@pytest.fixture(scope="module")
def player(cluster: RealCluster) -> Iterator[Player]:
    """Return who plays cases on the session's cluster."""
    if cluster.options.minor not in _COUNTS_ARE_DISTINCT:
        pytest.skip("older releases keep shares only behind a gate")
    with cluster.client() as client:
        yield Player(client, cluster.options.minor)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_real_scheduler_gives_the_same(
    case: ClaimCase, player: Player, cluster: RealCluster
) -> None:
    """Devices, amounts and configuration are those of the simulated scheduler."""
    answer = player.play(case.vector())
    expected = allocate(case.spec, case.node, profile=cluster.options.minor)
    if case.devices is None:
        assert answer["refused"] == {"none": 1}
    else:
        assert answer["allocations"] == with_stars(expected.allocations)
