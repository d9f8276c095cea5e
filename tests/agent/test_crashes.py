"""An agent that is killed between any two steps of what kubelet asks for, and started again."""

import grpc
import pytest

from cdi.faults import FaultPoint
from tests.agent.control_plane import Claim, share
from tests.agent.crashing import (
    OF_PREPARE,
    OF_REALLOCATION,
    OF_RESET,
    OF_RESTORE,
    OF_UNPREPARE,
    TRIED,
    check_all_given_back,
    check_granted,
    check_not_double_booked,
    crash_in_prepare,
    killed,
    skip_unless_reachable,
)
from tests.agent.host import held
from tests.agent.kubelet import answer
from tests.agent.mounts import unmount
from tests.agent.scene import Scene
from tests.patience import eventually
from tests.region_user import is_empty, leave_marks


def test_every_point_is_tried() -> None:
    """No step of the agent is without a crash."""
    assert set(FaultPoint) == TRIED


@pytest.mark.parametrize("point", OF_PREPARE)
def test_a_crash_in_prepare_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """Kubelet may try again or give the claim up: the share is held once, then by nobody."""
    skip_unless_reachable(point)
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


def unmount_region(stage: Scene, claim: Claim) -> None:
    """Have the region of *claim* be a file in a plain directory."""
    region = stage.host.region(claim.uid)
    if region.parent.is_mount():
        unmount(region.parent)
    region.touch()


@pytest.mark.parametrize("point", OF_UNPREPARE)
def test_a_crash_in_unprepare_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """A second unprepare ends what the first began; other claims keep what they have."""
    skip_unless_reachable(point)
    result, other_result = share(stage.host.device(0)), share(stage.host.device(0), "1000Mi")
    agent = stage.started()
    claim, other = stage.control.claim(result), stage.control.claim(other_result)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    assert stage.kubelet.prepare(other) == answer(other, other_result)
    if point is FaultPoint.REGION_FILE_REMOVED:
        # As where the agent may not mount.
        unmount_region(stage, claim)
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


@pytest.mark.parametrize("point", OF_RESTORE)
def test_a_crash_while_restoring_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """An agent that is killed while it repairs a rebooted node begins anew."""
    skip_unless_reachable(point)
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
    assert stage.host.temporary_files() == []


@pytest.mark.parametrize("point", OF_RESET)
def test_a_crash_in_the_reset_of_a_region_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """The region is empty and whole in the end, and still the file that a container has mounted."""
    first = stage.started()
    result = share(stage.host.device(0))
    claim = stage.control.claim(result)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    region = stage.host.region(claim.uid)
    inode = region.stat().st_ino
    first.die_at(point)

    leave_marks(region)
    assert killed(first)

    second = stage.started()
    eventually(lambda: is_empty(region))
    assert region.stat().st_ino == inode
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    assert stage.kubelet.unprepare(claim) == ""
    check_all_given_back(stage, second)


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
