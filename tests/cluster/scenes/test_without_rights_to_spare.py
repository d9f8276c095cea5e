"""After all scenes: every right that the chart grants was used by one of them."""

import pytest

from tests.cluster.cluster import RealCluster
from tests.cluster.scenes import rights

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.scene("no right is granted that no scene uses")
@pytest.mark.parametrize("account", rights.UNUSED)
def test_every_right_is_used(
    cluster: RealCluster, account: str, request: pytest.FixtureRequest
) -> None:
    """Those that need more than a scene are listed with the reason."""
    if not request.config.getoption("--all-scenes"):
        pytest.skip("all scenes together use them")
    assert rights.unused(cluster.state.audit_log, account) <= set(rights.UNUSED[account])
