"""Scenes in which the node agent ends, is killed or is replaced while pods start and end."""

import pytest

from tests.cluster.scenes.expectations import A10, H100, L4, T4
from tests.cluster.scenes.leftovers import prepared_claims
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.troubles import (
    FAILED,
    end,
    eventually_gone,
    expect_served,
    expect_untouched,
    own_slices,
    uid_of,
    users,
    wake,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.mark.scene("a rolling update of the agent")
def test_rolling_update(stage: Stage) -> None:
    """Pods start and end while two agents are registered; none fails, and the slices stay."""
    stage.run(*users(stage, {"stays": T4, "leaves": A10}))
    slices = own_slices(stage)
    old, new = stage.driver.first, stage.driver.start_second()
    assert old.ready()
    end(stage, "leaves")
    stage.run(*users(stage, {"between": L4}))
    eventually_gone(stage, "leaves")
    # The old one ends in the middle of what comes now.
    stage.create(*users(stage, {"during": H100}))
    end(stage, "between")
    old.terminate()
    expect_served(stage, "during")
    eventually_gone(stage, "between")
    stage.run(*users(stage, {"after": A10}))
    expect_served(stage, "stays", "after")
    expect_untouched(stage, "stays", "during", "after")
    assert new.ready()
    assert own_slices(stage) == slices
    for name in ("stays", "leaves", "between", "during", "after"):
        assert not stage.events(name, FAILED)
    uids = {uid_of(stage, each) for each in ("stays", "during", "after")}
    assert set(prepared_claims(stage.driver)) == uids


@pytest.mark.scene("the agent is restarted while pods start")
def test_agent_restart_in_between(stage: Stage) -> None:
    """Pods that come while the agent is away wait for it; pods that end meanwhile end with it."""
    stage.run(*users(stage, {"leaves": H100}))
    stage.create(*users(stage, {"first": T4, "second": A10}))
    with stage.driver.first_away():
        stage.create(*users(stage, {"third": L4}))
        end(stage, "leaves")
        assert "gpuslice.io" in stage.told("third", FAILED)
    for name in ("first", "second", "third"):
        wake(stage, name)
    expect_served(stage, "first", "second", "third")
    expect_untouched(stage, "first", "second", "third")
    eventually_gone(stage, "leaves")


@pytest.mark.scene("the clock of the node is set back")
def test_clock_set_back(stage: Stage) -> None:
    """An agent whose clock goes back an hour prepares and releases claims of old names as ever."""
    driver = stage.driver
    stage.run(*users(stage, {"stays": T4, "returns": A10}))
    stage.delete("Pod", "returns")
    stage.delete("ResourceClaim", "returns")
    for shift_s in (-3600, 0):
        driver.first.shift_clock(shift_s)
        stage.run(*users(stage, {"returns": A10}))
        expect_served(stage, "returns")
        if shift_s:
            # What the state says of the time before it must not matter to the next start either.
            driver.restart_first()
        stage.delete("Pod", "returns")
        # The claim was released under this clock, and the same claim is used again.
        stage.create(users(stage, {"returns": A10})[1])
        expect_served(stage, "returns")
        stage.delete("Pod", "returns")
        stage.delete("ResourceClaim", "returns")
    expect_untouched(stage, "stays")
    assert set(prepared_claims(driver)) == {uid_of(stage, "stays")}
