"""An agent that is killed while it copes with a full disk or a damaged state, and started again."""

import grpc
import pytest

from cdi.faults import FaultPoint
from tests.agent.control_plane import Claim, share
from tests.agent.crashing import (
    OF_FULL_CDI,
    OF_FULL_STATE,
    OF_NO_ROOM_FOR_A_JOURNAL,
    OF_REBUILD,
    check_all_given_back,
    check_granted,
    check_not_double_booked,
    crash_in_prepare,
    killed,
    needs_mounts,
)
from tests.agent.damage import damage
from tests.agent.host import Holdings, held
from tests.agent.kubelet import answer
from tests.agent.mounts import fill, small_disk
from tests.agent.scene import Scene
from tests.patience import eventually


def fill_until_refused(stage: Scene, taken: list[Claim]) -> Claim:
    """Prepare claims, all added to *taken*, until one is not prepared; return that."""
    while True:
        # The last page of the journal still has room for a few.
        claim = stage.control.claim(share(stage.host.device(1), "1Mi", "0"))
        if stage.kubelet.prepare(claim).error:
            return claim
        taken.append(claim)


@needs_mounts
@pytest.mark.parametrize("point", OF_FULL_STATE)
def test_a_crash_on_a_full_disk_below_the_state_is_repaired(
    stage: Scene, point: FaultPoint
) -> None:
    """What was recorded is still there, and what did not fit is not, not even in part."""
    with small_disk(stage.host.state, size_kib=64):
        agent = stage.started()
        fill(stage.host.state)
        recorded: list[Claim] = []
        agent.die_at(point)
        with pytest.raises(grpc.RpcError):
            fill_until_refused(stage, recorded)
        assert killed(agent)

        stage.started()
        (stage.host.state / "filler").unlink()
        assert set(stage.host.claims()) == {claim.uid for claim in recorded}
        for claim in recorded:
            assert stage.kubelet.prepare(claim).error == ""
        more = stage.control.claim(share(stage.host.device(1), "1Mi", "0"))
        assert stage.kubelet.prepare(more).error == ""


@needs_mounts
@pytest.mark.parametrize("point", OF_FULL_CDI)
def test_a_crash_on_a_full_disk_below_the_cdi_directory_is_repaired(
    stage: Scene, point: FaultPoint
) -> None:
    """A claim that is taken back, because its spec did not fit, is prepared once there is room."""
    with small_disk(stage.host.cdi, size_kib=64):
        agent = stage.started()
        filler = fill(stage.host.cdi)
        result = share(stage.host.device(0))
        claim = crash_in_prepare(stage, agent, point, result)
        filler.unlink()

        stage.started()
        assert stage.kubelet.prepare(claim) == answer(claim, result)
        assert stage.host.holdings() == held(claim.uid)
        assert stage.kubelet.unprepare(claim) == ""
        assert stage.host.holdings() == Holdings()


@needs_mounts
@pytest.mark.parametrize("point", OF_NO_ROOM_FOR_A_JOURNAL)
def test_a_crash_while_a_snapshot_is_taken_back_loses_nothing(
    stage: Scene, point: FaultPoint
) -> None:
    """A generation that could not begin is no generation, whether or not anything is left of it."""
    # The directory, the lock, the boot's id, two files of a generation, and one of the next.
    with small_disk(stage.host.state, size_kib=256, inodes=6):
        first = stage.started()
        (stage.host.state / "journal.00000000").unlink()
        result = share(stage.host.device(0))
        claim = stage.control.claim(result)
        assert stage.kubelet.prepare(claim) == answer(claim, result)
        first.kill()
        assert killed(stage.agent(die_at=point))

        last = stage.started()
        assert "No space left on device" in last.wait_logged("state not compacted")["reason"]
        assert stage.kubelet.prepare(claim) == answer(claim, result)
        assert stage.kubelet.unprepare(claim) == ""
        assert stage.host.holdings() == Holdings()
        assert last.terminate() == 0


@pytest.mark.parametrize("point", OF_REBUILD)
def test_a_crash_in_a_rebuild_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """A damaged state is rebuilt in the end, and what was damaged is still kept for a look."""
    result = share(stage.host.device(0), "3000Mi")
    for earlier in ("0", "00", "000"):
        aside = stage.host.plugin / f"state.damaged-{earlier}"
        aside.mkdir(parents=True)
        (aside / "snapshot.00000001").touch()
    first = stage.started()
    claim = stage.control.claim(result)
    stage.control.run_pod(claim)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    spec = stage.host.spec(claim.uid).read_bytes()
    first.kill()
    damage(stage.host.state)
    assert killed(stage.agent(die_at=point))

    last = stage.started()
    eventually(lambda: stage.kubelet.prepare(claim) == answer(claim, result))
    assert stage.host.holdings() == held(claim.uid)
    assert stage.host.spec(claim.uid).read_bytes() == spec
    asides = sorted(stage.host.plugin.glob("state.damaged-*"))
    assert len(asides) == 3
    assert any(path.read_bytes() for path in asides[-1].iterdir())
    check_granted(last, 3000)
    check_not_double_booked(stage, 3000)
    assert stage.kubelet.unprepare(claim) == ""
    check_all_given_back(stage, last)
