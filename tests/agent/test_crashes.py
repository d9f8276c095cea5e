"""An agent that is killed between any two of its steps, and started again.

The points come from the agent's own list, in the order in which a prepare and then an unprepare
meet them, so a new step is tried as soon as it is listed.
"""

import signal

import grpc
import pytest

from dra.faults import FaultPoint
from dra.state import StateStore
from tests.agent.control_plane import Claim, JsonObject, share
from tests.agent.host import Holdings, held
from tests.agent.kubelet import answer
from tests.agent.mounts import read_only
from tests.agent.process import Agent
from tests.agent.scene import Scene
from tests.patience import eventually

POINTS = list(FaultPoint)
_END_OF_PREPARE = POINTS.index(FaultPoint.PREPARE_ANSWERED) + 1
_END_OF_UNPREPARE = POINTS.index(FaultPoint.UNPREPARE_ANSWERED) + 1
OF_PREPARE = POINTS[:_END_OF_PREPARE]
OF_UNPREPARE = [FaultPoint.RECORD_APPENDED, *POINTS[_END_OF_PREPARE:_END_OF_UNPREPARE]]
OF_START = POINTS[_END_OF_UNPREPARE:]
OF_RESTORE = [FaultPoint.REGION_MOUNTED, FaultPoint.REGION_CREATED, FaultPoint.SPEC_WRITTEN]
OF_REALLOCATION = [
    FaultPoint.RECORD_SYNCED,
    FaultPoint.SPEC_DELETED,
    FaultPoint.REGION_REMOVED,
    FaultPoint.REGION_CREATED,
]
OF_WITHDRAWAL = [FaultPoint.SPEC_DELETED, FaultPoint.REGION_REMOVED]

TOTAL_MIB = 23034
"""Memory of the first GPU."""


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


def crash_in_prepare(stage: Scene, agent: Agent, point: FaultPoint, result: JsonObject) -> Claim:
    """Let *agent* be killed at *point* while it prepares a new claim, and return the claim."""
    claim = stage.control.claim(result)
    agent.die_at(point)
    with pytest.raises(grpc.RpcError):
        stage.kubelet.prepare(claim)
    assert killed(agent)
    return claim


@pytest.mark.parametrize("point", OF_PREPARE)
def test_a_crash_in_prepare_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """Kubelet may try again or give the claim up: the share is held once, then by nobody."""
    result = share(stage.host.device(0), "3000Mi")
    given_up = crash_in_prepare(stage, stage.started(), point, result)
    stage.host.claims()

    again = stage.started()
    assert stage.kubelet.unprepare(given_up) == ""
    check_all_given_back(stage, again)
    claim = crash_in_prepare(stage, again, point, result)

    last = stage.started()
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    assert stage.host.holdings() == held(claim.uid)
    check_granted(last, 3000)
    check_not_double_booked(stage, 3000)
    assert stage.kubelet.unprepare(claim) == ""
    check_all_given_back(stage, last)


@pytest.mark.parametrize("point", OF_UNPREPARE)
def test_a_crash_in_unprepare_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """A second unprepare ends what the first began; other claims keep what they have."""
    result, other_result = share(stage.host.device(0)), share(stage.host.device(0), "1000Mi")
    agent = stage.started()
    claim, other = stage.control.claim(result), stage.control.claim(other_result)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    assert stage.kubelet.prepare(other) == answer(other, other_result)
    agent.die_at(point)
    with pytest.raises(grpc.RpcError):
        stage.kubelet.unprepare(claim)
    assert killed(agent)

    last = stage.started()
    assert stage.kubelet.unprepare(claim) == ""
    assert stage.host.holdings() == held(other.uid)
    check_granted(last, 1000)
    check_not_double_booked(stage, 1000)
    assert stage.kubelet.prepare(claim).error.startswith("ClaimWasReleased: ")
    assert stage.kubelet.prepare(other) == answer(other, other_result)


@pytest.mark.parametrize("point", OF_START)
def test_a_crash_while_compacting_loses_nothing(stage: Scene, point: FaultPoint) -> None:
    """An agent that is killed while it begins a new generation finds all claims afterwards."""
    kept, released = share(stage.host.device(0)), share(stage.host.device(1))
    stage.host.state.mkdir(parents=True)
    for _start in range(2):
        # The third generation is the first that drops one.
        earlier = StateStore(stage.host.state, boot_id="boot-0")
        earlier.open()
        earlier.close()
    first = stage.started()
    claim, gone = stage.control.claim(kept), stage.control.claim(released)
    stage.kubelet.prepare_all(claim, gone)
    assert stage.kubelet.unprepare(gone) == ""
    first.kill()

    assert killed(stage.agent(die_at=point))
    assert set(stage.host.claims()) == {claim.uid}

    last = stage.started()
    check_granted(last, 3000)
    assert stage.kubelet.prepare(gone).error.startswith("ClaimWasReleased: ")
    assert stage.kubelet.prepare(claim) == answer(claim, kept)
    assert stage.kubelet.unprepare(claim) == ""
    check_all_given_back(stage, last)


@pytest.mark.parametrize("point", OF_RESTORE)
def test_a_crash_while_restoring_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """An agent that is killed while it repairs a rebooted node begins anew."""
    result = share(stage.host.device(0))
    first = stage.started()
    claim = stage.control.claim(result)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    first.kill()
    stage.host.reboot()

    assert killed(stage.agent(die_at=point))

    stage.started()
    eventually(lambda: stage.host.holdings() == held(claim.uid))
    assert stage.kubelet.prepare(claim) == answer(claim, result)


@pytest.mark.parametrize("point", OF_REALLOCATION)
def test_a_crash_in_the_prepare_of_a_new_allocation_is_repaired(
    stage: Scene, point: FaultPoint
) -> None:
    """A claim that was allocated anew, while its old devices are prepared, ends with the new.

    Its region does too: HAMi-core keeps the limits with which a region was first used.
    """
    old, new = share(stage.host.device(0)), share(stage.host.device(1), "1000Mi")
    first = stage.started()
    claim = stage.control.claim(old)
    assert stage.kubelet.prepare(claim) == answer(claim, old)
    with stage.host.region(claim.uid).open("r+b") as region:
        region.write(b"limits of the old allocation")
    stage.control.allocate(claim, new)
    first.die_at(point)
    with pytest.raises(grpc.RpcError):
        stage.kubelet.prepare(claim)
    assert killed(first)

    last = stage.started()
    assert stage.kubelet.prepare(claim) == answer(claim, new)
    assert stage.host.holdings() == held(claim.uid)
    check_granted(last, 1000)
    check_not_double_booked(stage, 0)
    spec = stage.host.spec(claim.uid).read_text()
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=1000m" in spec
    assert set(stage.host.region(claim.uid).read_bytes()) == {0}
    assert stage.kubelet.unprepare(claim) == ""
    check_all_given_back(stage, last)


@pytest.mark.parametrize("point", OF_WITHDRAWAL)
def test_a_crash_in_a_withdrawal_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """An agent that is killed while it takes back what it could not end leaves nothing wrong."""
    result = share(stage.host.device(0))
    agent = stage.started()
    with read_only(stage.host.cdi):
        claim = crash_in_prepare(stage, agent, point, result)

    last = stage.started()
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    assert stage.host.holdings() == held(claim.uid)
    check_granted(last, 3000)
    assert stage.kubelet.unprepare(claim) == ""
    check_all_given_back(stage, last)
