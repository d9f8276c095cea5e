"""Scenes in which a GPU fails while pods use it, and is well again afterwards."""

import pytest

from tests.cluster.scenes.ailing import (
    CODES,
    ailing,
    expect_ill,
    expect_well,
    health_of,
    keeps_taints,
    readiness,
    watching_health,
)
from tests.cluster.scenes.expectations import A10, T4
from tests.cluster.scenes.leftovers import prepared_claims
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.troubles import (
    eventually_gone,
    expect_served,
    expect_untouched,
    shares,
    uid_of,
    users,
)
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.mark.scene("a GPU that fails and is well again")
def test_ill_gpu(stage: Stage) -> None:
    """Who uses it runs on and is told; new work goes elsewhere or waits until it is well."""
    with watching_health(stage.driver):
        stage.run(*users(stage, {"stays": A10}))
        with ailing(stage.driver, A10):
            expect_ill(stage, A10)
            eventually(lambda: [each for each, _ in readiness(stage, "stays")] == ["False"])
            ((_, reason),) = readiness(stage, "stays")
            assert reason in CODES
            if keeps_taints(stage):
                eventually(lambda: health_of(stage, "stays") == ["Unhealthy"])
            stage.create(*users(stage, {"waits": A10, "elsewhere": T4}))
            assert "cannot allocate all claims" in stage.pending("waits")
            expect_served(stage, "elsewhere")
            expect_untouched(stage, "stays", "elsewhere")
        expect_well(stage, A10)
        eventually(lambda: readiness(stage, "stays") == [("True", "Recovered")])
        if keeps_taints(stage):
            eventually(lambda: health_of(stage, "stays") == ["Healthy"])
        if not shares(stage):
            stage.delete("Pod", "stays")
        expect_served(stage, "waits")
        assert not readiness(stage, "elsewhere")


@pytest.mark.scene("a GPU that fails and loses its pods")
def test_ill_gpu_evicts(stage: Stage) -> None:
    """With NoExecute the controllers end who uses it, its share is given back, others stay."""
    with watching_health(stage.driver, "NoExecute"):
        stage.run(*users(stage, {"evicted": A10, "stays": T4}))
        with ailing(stage.driver, A10):
            expect_ill(stage, A10, "NoExecute")
            eventually_gone(stage, "evicted")
            eventually(lambda: prepared_claims(stage.driver) == (uid_of(stage, "stays"),))
            assert len(stage.driver.specs()) == 1
            expect_untouched(stage, "stays")
        expect_well(stage, A10)
        stage.run(*users(stage, {"next": A10}))
        expect_served(stage, "next", "stays")
