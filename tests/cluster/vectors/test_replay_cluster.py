"""Some recorded cases again, on the cluster of the session: the records still hold."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.cluster import RealCluster
from tests.cluster.vectors.player import Player, same
from tests.sim.scheduler.vector import Vector, read_all

pytestmark = [pytest.mark.cluster]

SAMPLE: Final = (
    "admin-without-label",
    "all-one-too-small",
    "class-missing",
    "config-for-some-requests",
    "counters-restored-after-taint",
    "distinct-count-two-same",
    "extended-init-container",
    "first-available-two-requests",
    "match-packs-shares",
    "mig-four-and-three",
    "node-by-sum-of-alternatives",
    "node-errors-mixed",
    "node-network-device",
    "per-device-selection-all",
    "pool-across-nodes-newer-elsewhere",
    "range-offset-grid",
    "selector-has-in-unknown-domain",
    "selector-unknown-domain-key",
    "shares-move-for-larger",
    "taint-one-of-two-tolerated",
)
"""One case or two for each part of the rules."""


@pytest.fixture(scope="module")
def player(cluster: RealCluster) -> Iterator[Player]:
    """Return who plays cases on the session's cluster."""
    if cluster.options.gates:
        pytest.skip("records are of the gates that a release has by default")
    with cluster.client() as client:
        yield Player(client, cluster.options.minor)


@pytest.mark.parametrize("vector", read_all(SAMPLE), ids=lambda vector: vector.name)
def test_a_record_holds(vector: Vector, player: Player, cluster: RealCluster) -> None:
    """The scheduler answers what it answered when the case was recorded."""
    recorded = vector.recorded.get(cluster.options.minor)
    if recorded is None:
        pytest.skip(f"nothing is recorded of {cluster.options.minor}")
    answer = player.play(vector)
    known = recorded.get("any_of", [recorded])
    assert any(same(answer, each) for each in known), answer
