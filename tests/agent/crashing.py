"""The points at which tests kill an agent, and what they check afterwards.

A section of the agent's own registry stands for what it does at one time, so a new step is tried
as soon as it is listed.
"""

import signal

import grpc
import pytest

from cdi.faults import FaultPoint
from tests.agent.control_plane import Claim, JsonObject, share
from tests.agent.host import Holdings
from tests.agent.mounts import may_mount
from tests.agent.process import Agent
from tests.agent.scene import Scene

POINTS = list(FaultPoint)


def section(first: FaultPoint, last: FaultPoint) -> list[FaultPoint]:
    """Return the points of the registry from *first* to *last*."""
    return POINTS[POINTS.index(first) : POINTS.index(last) + 1]


OF_COMPACTION = section(FaultPoint.SNAPSHOT_TEMPORARY_WRITTEN, FaultPoint.GENERATION_DROPPED)
OF_FIRST_START = [
    point
    for point in section(FaultPoint.PLUGIN_DIRECTORY_MADE, FaultPoint.LIBRARY_COPIED)
    if point is not FaultPoint.GENERATION_DROPPED
]
OF_CLEANING = section(FaultPoint.JOURNAL_CUT, FaultPoint.STALE_SOCKET_REMOVED)
OF_PUBLICATION = section(FaultPoint.SLICE_WRITTEN, FaultPoint.SLICE_DELETED)
OF_CONDITIONS = [FaultPoint.CLAIM_STATUS_WRITTEN]
OF_REGISTRATION = section(FaultPoint.INFO_ANSWERED, FaultPoint.REGISTRATION_ANSWERED)
OF_PREPARE = section(FaultPoint.PREPARE_BEFORE_RECORD, FaultPoint.PREPARE_ANSWERED)
OF_UNPREPARE = [
    FaultPoint.RECORD_APPENDED,
    FaultPoint.RECORD_SYNCED,
    *section(FaultPoint.UNPREPARE_BEFORE_UNDO, FaultPoint.UNPREPARE_ANSWERED),
]
OF_FULL_STATE = [FaultPoint.RECORD_TAKEN_BACK]
OF_FULL_CDI = [
    FaultPoint.TEMPORARY_DROPPED,
    FaultPoint.SPEC_DELETED,
    FaultPoint.REGION_REMOVED,
]
OF_NO_ROOM_FOR_A_JOURNAL = [FaultPoint.SNAPSHOT_TAKEN_BACK]
OF_RESTORE = section(FaultPoint.REGION_DIRECTORY_MADE, FaultPoint.SPEC_WRITTEN)
OF_REALLOCATION = [
    FaultPoint.RECORD_SYNCED,
    FaultPoint.SPEC_DELETED,
    FaultPoint.REGION_REMOVED,
    FaultPoint.REGION_CREATED,
]
OF_REBUILD = [
    FaultPoint.SNAPSHOT_TEMPORARY_WRITTEN,
    FaultPoint.SNAPSHOT_WRITTEN,
    FaultPoint.JOURNAL_MADE,
    FaultPoint.JOURNAL_OPENED,
    FaultPoint.RECORD_APPENDED,
    FaultPoint.RECORD_SYNCED,
    *section(FaultPoint.REBUILD_MARKED, FaultPoint.REBUILD_ENDED),
]
OF_CONTAINERS = section(FaultPoint.CONTAINERS_DIRECTORY_MADE, FaultPoint.CONTAINER_REMOVED)
"""Tried beside the device plugin's own tests too."""
OF_DELIVERY = section(FaultPoint.LIBRARY_LINK_MADE, FaultPoint.LIBRARY_REMOVED)
"""Tried beside those of the library too."""
OF_RESET = section(FaultPoint.REGION_EMPTIED, FaultPoint.REGION_RESET)

OF_CARD_START = [
    FaultPoint.PLUGIN_DIRECTORY_MADE,
    FaultPoint.MODE_TEMPORARY_WRITTEN,
    FaultPoint.MODE_WRITTEN,
    FaultPoint.LIBRARY_DIRECTORY_MADE,
    FaultPoint.LIBRARY_TEMPORARY_WRITTEN,
    FaultPoint.LIBRARY_COPIED,
    FaultPoint.CDI_DIRECTORY_MADE,
    FaultPoint.SPEC_TEMPORARY_WRITTEN,
    FaultPoint.SPEC_WRITTEN,
]
OF_CARD_RESTORE = [
    *section(FaultPoint.REGION_DIRECTORY_MADE, FaultPoint.REGION_CREATED),
    FaultPoint.LOCK_DIRECTORY_MADE,
]
OF_ALLOCATE = [
    *section(FaultPoint.CONTAINERS_DIRECTORY_MADE, FaultPoint.CONTAINER_WRITTEN),
    *OF_CARD_RESTORE,
]
OF_CARD_RELEASE = [
    *section(FaultPoint.REGION_UNMOUNTED, FaultPoint.REGION_REMOVED),
    FaultPoint.CONTAINER_REMOVED,
]
OF_CARD_CLEANING = [FaultPoint.TEMPORARY_SWEPT]
OF_FULL_CONTAINERS = [FaultPoint.TEMPORARY_DROPPED]
OF_CARDS_GONE = [FaultPoint.SPEC_DELETED]
OF_INSTALLATION = section(FaultPoint.LIBRARY_LINK_MADE, FaultPoint.LIBRARY_LINKED)
OF_PARTITIONS = section(FaultPoint.PARTITIONS_TEMPORARY_WRITTEN, FaultPoint.PARTITIONS_WRITTEN)
"""Tried beside the partitions' own tests, where the driver can be looked into."""
OF_UNUSED_LIBRARIES = section(FaultPoint.LIBRARY_FILE_REMOVED, FaultPoint.LIBRARY_REMOVED)
NEED_MOUNTS = {
    FaultPoint.REGION_MOUNTED,
    FaultPoint.REGION_UNMOUNTED,
    FaultPoint.LOCK_DIRECTORY_MADE,
}

needs_mounts = pytest.mark.skipif(not may_mount(), reason="the right to mount is needed")

TOTAL_MIB = 23034
"""Memory of the first GPU."""

TRIED = {
    point
    for points in (
        OF_FIRST_START,
        OF_COMPACTION,
        OF_CLEANING,
        OF_PUBLICATION,
        OF_REGISTRATION,
        OF_PREPARE,
        OF_UNPREPARE,
        OF_FULL_STATE,
        OF_FULL_CDI,
        OF_NO_ROOM_FOR_A_JOURNAL,
        OF_RESTORE,
        OF_REALLOCATION,
        OF_RESET,
        OF_REBUILD,
        OF_CONDITIONS,
        OF_CARD_START,
        OF_ALLOCATE,
        OF_CARD_RELEASE,
        OF_CARD_CLEANING,
        OF_FULL_CONTAINERS,
        OF_CARDS_GONE,
        OF_INSTALLATION,
        OF_UNUSED_LIBRARIES,
        OF_PARTITIONS,
    )
    for point in points
}


def killed(agent: Agent) -> bool:
    """Tell whether SIGKILL ended the agent."""
    return agent.wait_ended() == -signal.SIGKILL


def check_not_double_booked(stage: Scene, taken_mib: int) -> None:
    """Check that exactly the memory above *taken_mib* can still be had, and no more."""
    device, control = stage.host.device(0), stage.control
    left = TOTAL_MIB - taken_mib
    too_much = control.claim(share(device, f"{left + 1}Mi", "0"))
    assert stage.kubelet.prepare(too_much).error.startswith("CapacityExceeded: ")
    rest = control.claim(share(device, f"{left}Mi", "0"))
    assert stage.kubelet.prepare(rest).error == ""
    assert stage.kubelet.unprepare(rest) == ""


def check_granted(agent: Agent, *granted_mib: int) -> None:
    """Check what the agent's metrics say is granted."""
    granted = agent.metrics().get("gpuslice_granted_memory_mib", {})
    assert sorted(granted.values()) == sorted(granted_mib)


def check_all_given_back(stage: Scene, agent: Agent) -> None:
    """Check that nothing is left of any claim."""
    assert stage.host.holdings() == Holdings()
    check_granted(agent)


def skip_unless_reachable(point: FaultPoint) -> None:
    """Skip the test of a *point* that this machine does not let the agent come to."""
    if point in NEED_MOUNTS and not may_mount():
        pytest.skip("the right to mount is needed")


def crash_in_prepare(stage: Scene, agent: Agent, point: FaultPoint, result: JsonObject) -> Claim:
    """Let *agent* be killed at *point* while it prepares a new claim, and return the claim."""
    claim = stage.control.claim(result)
    agent.die_at(point)
    with pytest.raises(grpc.RpcError):
        stage.kubelet.prepare(claim)
    assert killed(agent)
    return claim
