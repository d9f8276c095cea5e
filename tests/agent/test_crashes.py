"""An agent that is killed between any two of its steps, and started again.

The points come from the agent's own registry: a section of it stands for what the agent does at
one time, so a new step is tried as soon as it is listed, and one that no test reaches is a failure.
"""

import signal

import grpc
import pytest

from cdi.faults import FaultPoint
from dra.journal import encode_line
from dra.state import StateStore
from tests.agent.control_plane import Claim, JsonObject, share
from tests.agent.damage import damage
from tests.agent.host import Holdings, held
from tests.agent.kubelet import answer, register
from tests.agent.mounts import fill, may_mount, small_disk, unmount
from tests.agent.process import Agent
from tests.agent.scene import Scene
from tests.patience import eventually
from tests.region_user import is_empty, leave_marks

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
OF_RESET = section(FaultPoint.REGION_EMPTIED, FaultPoint.REGION_RESET)
NEED_MOUNTS = {FaultPoint.REGION_MOUNTED, FaultPoint.REGION_UNMOUNTED}

needs_mounts = pytest.mark.skipif(not may_mount(), reason="the right to mount is needed")

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


def skip_unless_reachable(point: FaultPoint) -> None:
    """Skip the test of a *point* that this machine does not let the agent come to."""
    if point in NEED_MOUNTS and not may_mount():
        pytest.skip("the right to mount is needed")


def test_every_point_is_tried() -> None:
    """No step of the agent is without a crash."""
    tried = [
        *OF_FIRST_START, *OF_COMPACTION, *OF_CLEANING, *OF_REGISTRATION, *OF_PREPARE,
        *OF_UNPREPARE, *OF_FULL_STATE, *OF_FULL_CDI, *OF_NO_ROOM_FOR_A_JOURNAL, *OF_RESTORE,
        *OF_REALLOCATION, *OF_RESET, *OF_REBUILD,
    ]  # fmt: skip
    assert set(tried) == set(FaultPoint)


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
