"""An agent that is killed while it starts, registers and publishes, and started again."""

from contextlib import suppress

import grpc
import pytest

from cdi.faults import FaultPoint
from dra.journal import encode_line
from dra.state import StateStore
from tests.agent.control_plane import share
from tests.agent.crashing import (
    OF_CLEANING,
    OF_COMPACTION,
    OF_CONDITIONS,
    OF_FIRST_START,
    OF_PUBLICATION,
    OF_REGISTRATION,
    check_all_given_back,
    check_granted,
    check_not_double_booked,
    crash_in_prepare,
    killed,
)
from tests.agent.host import held
from tests.agent.kubelet import answer, register
from tests.agent.scene import Scene
from tests.patience import eventually


@pytest.mark.parametrize("point", OF_FIRST_START)
def test_a_crash_in_the_first_start_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """The next start goes on wherever the first was cut off, and leaves nothing lying about."""
    assert killed(stage.agent(die_at=point))

    agent = stage.started()
    result = share(stage.host.device(0), "3000Mi")
    claim = stage.control.claim(result)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    assert stage.host.holdings() == held(claim.uid)
    assert stage.host.temporary_files() == []
    check_granted(agent, 3000)
    check_not_double_booked(stage, 3000)


@pytest.mark.parametrize("point", OF_REGISTRATION)
def test_a_crash_in_the_registration_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """Kubelet finds the sockets of the next agent and registers that."""
    agent = stage.started()
    agent.die_at(point)
    socket = stage.host.registry / "gpuslice.io-reg.sock"
    with pytest.raises(grpc.RpcError):
        register(socket)
    assert killed(agent)

    last = stage.started()
    assert register(socket).endpoint == str(stage.host.plugin / "dra.sock")
    eventually(lambda: "kubelet: ok\n" in last.ask("/readyz")[1])


def offer(stage: Scene) -> list[tuple[int, list[str]]]:
    """Return what each slice on the server says: how many there are, and its devices."""
    specs = [item["spec"] for item in stage.control.slices()]
    return sorted(
        (spec["pool"]["resourceSliceCount"], sorted(each["name"] for each in spec["devices"]))
        for spec in specs
    )


@pytest.mark.parametrize("point", OF_PUBLICATION)
def test_a_crash_while_slices_are_written_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """The pool is whole in the end, and nothing else is left in it."""
    first = stage.started()
    eventually(lambda: "slices: ok\n" in first.ask("/readyz")[1])
    published, whole = stage.control.slices(), offer(stage)
    assert whole
    first.kill()
    if point is FaultPoint.SLICE_DELETED:
        stage.control.add_slice(published[0], "left-over")
    else:
        stage.control.delete_slice(published[0])
    assert offer(stage) != whole
    assert killed(stage.agent(die_at=point))

    last = stage.started()
    eventually(lambda: "slices: ok\n" in last.ask("/readyz")[1])
    assert offer(stage) == whole


@pytest.mark.parametrize("point", OF_CLEANING)
def test_a_crash_while_cleaning_up_after_a_crash_is_repaired(
    stage: Scene, point: FaultPoint
) -> None:
    """Halves of files, a cut line and dead sockets are gone after one whole start."""
    result = share(stage.host.device(0), "3000Mi")
    first = stage.started()
    claim = stage.control.claim(result)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    crash_in_prepare(stage, first, FaultPoint.SPEC_TEMPORARY_WRITTEN, share(stage.host.device(1)))
    with max(stage.host.state.glob("journal.*")).open("ab") as journal:
        journal.write(encode_line({"op": "withdrawn", "uid": claim.uid})[:-1])
    assert stage.host.temporary_files()
    assert killed(stage.agent(die_at=point))

    stage.started()
    assert stage.host.temporary_files() == []
    assert stage.kubelet.prepare(claim) == answer(claim, result)


@pytest.mark.parametrize("point", OF_COMPACTION)
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


@pytest.mark.parametrize("point", OF_CONDITIONS)
def test_a_crash_while_a_claim_is_told_is_repaired(stage: Scene, point: FaultPoint) -> None:
    """What the claim says of its device is put right when the device is, by the next agent."""
    stage.host.set_gpus("gpus: [{profile: l4, recovery_action: gpu-reset}]")
    first = stage.started()
    claim = stage.control.claim(share(stage.host.device(0)))
    first.die_at(point)
    with suppress(grpc.RpcError):
        stage.kubelet.prepare(claim)
    assert killed(first)
    assert stage.control.ready_conditions(claim) == ["False"]
    stage.host.set_gpus("gpus: [{profile: l4}]")

    stage.started()
    assert stage.kubelet.prepare(claim).error == ""
    eventually(lambda: stage.control.ready_conditions(claim) == ["True"])
