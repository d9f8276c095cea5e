"""The agent killed at each fault point that a pod's start, its end and an agent's start come by.

Which those are the agent says itself: one pod is watched through its life. Then each point of a
pod's start is played together with one of a pod's end, and the points of an agent's start come
one right after the other, so that each start finds what the one before left.
"""

from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import pytest

from cdi.faults import FaultPoint
from tests.cluster.scenes.expectations import A10, T4
from tests.cluster.scenes.leftovers import prepared_claims
from tests.cluster.scenes.stage import Stage
from tests.cluster.scenes.troubles import (
    end,
    eventually_gone,
    expect_served,
    expect_untouched,
    gone,
    shares,
    uid_of,
    users,
    wake,
)
from tests.patience import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

# Whether a region is emptied here depends on who else has it open at that moment.
_BY_CHANCE: Final = {FaultPoint.REGION_EMPTIED, FaultPoint.REGION_RESET}
# A node's first agent, agents that may not mount, full disks, broken states, new slices, ailing
# GPUs and the device plugin: the agent's own tests have them.
_ELSEWHERE: Final = {
    FaultPoint.LIBRARY_DIRECTORY_MADE,
    FaultPoint.LIBRARY_TEMPORARY_WRITTEN,
    FaultPoint.LIBRARY_COPIED,
    FaultPoint.BOOT_ID_TEMPORARY_WRITTEN,
    FaultPoint.BOOT_ID_WRITTEN,
    FaultPoint.JOURNAL_CUT,
    FaultPoint.SLICE_WRITTEN,
    FaultPoint.SLICE_DELETED,
    FaultPoint.CLAIM_STATUS_WRITTEN,
    FaultPoint.TEMPORARY_SWEPT,
    FaultPoint.TEMPORARY_DROPPED,
    FaultPoint.RECORD_TAKEN_BACK,
    FaultPoint.SNAPSHOT_TAKEN_BACK,
    FaultPoint.REGION_FILE_REMOVED,
    FaultPoint.REBUILD_MARKED,
    FaultPoint.ASIDE_DIRECTORY_MADE,
    FaultPoint.MOVED_ASIDE,
    FaultPoint.ASIDE_DROPPED,
    FaultPoint.REBUILD_ENDED,
    FaultPoint.MODE_TEMPORARY_WRITTEN,
    FaultPoint.MODE_WRITTEN,
    FaultPoint.CONTAINERS_DIRECTORY_MADE,
    FaultPoint.CONTAINER_TEMPORARY_WRITTEN,
    FaultPoint.CONTAINER_WRITTEN,
    FaultPoint.CONTAINER_REMOVED,
    FaultPoint.LOCK_DIRECTORY_MADE,
    FaultPoint.LIBRARY_LINK_MADE,
    FaultPoint.LIBRARY_LINKED,
    FaultPoint.LIBRARY_FILE_REMOVED,
    FaultPoint.LIBRARY_REMOVED,
    FaultPoint.PARTITIONS_TEMPORARY_WRITTEN,
    FaultPoint.PARTITIONS_WRITTEN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Fault points in the order in which they were passed."""

    pod_start: list[str]
    pod_end: list[str]
    agent_start: list[str]


@pytest.mark.scene("the agent is killed at each fault point")
def test_agent_killed_at_each_point(stage: Stage) -> None:
    """Wherever the agent is killed, pods run, start and end as if nothing had happened."""
    driver = stage.driver
    stage.run(*users(stage, {"stays": T4}))
    points = _passed(stage)
    _expect_all(points, shared=shares(stage))
    for number, (first, last) in enumerate(zip_longest(points.pod_start, points.pod_end)):
        _play(stage, f"dies-{number}", first, last)
        assert set(prepared_claims(driver)) == {uid_of(stage, "stays")}
        assert len(driver.specs()) == 1
    driver.first.kill()
    for point in points.agent_start:
        driver.first.die_at(point)
        driver.start_doomed()
        assert not driver.first.running(), f"{point} was not met"
    driver.first.live_on()
    driver.start_first()
    assert set(prepared_claims(driver)) == {uid_of(stage, "stays")}
    expect_untouched(stage, "stays")
    expect_served(stage, "stays")


def _passed(stage: Stage) -> Points:
    driver = stage.driver
    with driver.first.watched() as pod_start:
        stage.run(*users(stage, {"watched": A10}))
    with driver.first.watched() as pod_end:
        stage.delete("Pod", "watched")
        eventually(lambda: len(prepared_claims(driver)) == 1)
    driver.first.kill()
    with driver.first.watched() as agent_start:
        driver.start_first()
    found = [
        [each for each in points if each not in _BY_CHANCE]
        for points in (pod_start, pod_end, agent_start)
    ]
    return Points(pod_start=found[0], pod_end=found[1], agent_start=found[2])


def _expect_all(points: Points, *, shared: bool) -> None:
    """Check that what is not met here is what cannot be."""
    met = {*points.pod_start, *points.pod_end, *points.agent_start}
    looked_at = {each for each in FaultPoint if shared or not each.startswith("region-")}
    assert looked_at - _BY_CHANCE - met == looked_at & _ELSEWHERE
    assert FaultPoint.PREPARE_ANSWERED in points.pod_start
    assert FaultPoint.UNPREPARE_ANSWERED in points.pod_end
    assert FaultPoint.REGISTRATION_ANSWERED in points.agent_start


def _play(stage: Stage, name: str, first: str | None, last: str | None) -> None:
    """Start a pod with a death at *first*, and end it with one at *last*."""
    agent = stage.driver.first
    if first is not None:
        agent.die_at(first)
    stage.create(*users(stage, {name: A10}))
    _revive(stage, name, first)
    expect_served(stage, name)
    if last is not None:
        stage.driver.first.die_at(last)
    end(stage, name)
    _revive(stage, name, last)
    eventually_gone(stage, name)
    stage.delete("ResourceClaim", name)


def _revive(stage: Stage, name: str, point: str | None) -> None:
    """Wait for the death at *point* and start the agent again."""
    if point is None:
        return
    driver = stage.driver
    eventually(lambda: not driver.first.running())
    driver.first.live_on()
    driver.start_first()
    if not gone(stage, name):
        wake(stage, name)
