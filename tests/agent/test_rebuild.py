"""An agent whose record of claims is damaged finds them again, while their containers run."""

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.agent.control_plane import Claim, JsonObject, share
from tests.agent.damage import KINDS, damage, damage_one
from tests.agent.host import Holdings, held
from tests.agent.kubelet import answer
from tests.agent.process import Agent
from tests.agent.scene import Scene
from tests.patience import eventually
from tests.region_user import using

TOTAL_MIB = 23034
"""Memory of the first GPU."""


def running(stage: Scene, memory: str = "20000Mi") -> tuple[Claim, JsonObject]:
    """Prepare a share of the first GPU for a pod of the node; return the claim and its result."""
    result = share(stage.host.device(0), memory, "0")
    claim = stage.control.claim(result)
    stage.control.run_pod(claim)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    return claim, result


def identity(path: Path) -> tuple[int, int]:
    """Return what changes when a file is replaced or written."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def is_rebuilt(agent: Agent) -> bool:
    """Tell whether the agent says that its record is whole."""
    return "state: ok\n" in agent.ask("/readyz")[1]


def check_not_double_booked(stage: Scene, taken_mib: int) -> None:
    """Check that the first GPU takes what is left of it and no more, from the first answer on."""
    left_mib = TOTAL_MIB - taken_mib
    too_much = stage.control.claim(share(stage.host.device(0), f"{left_mib + 1}Mi", "0"))
    said = set[str]()

    def is_decided() -> bool:
        said.add(stage.kubelet.prepare(too_much).error.partition(":")[0])
        return "StateRebuilding" not in said or len(said) > 1

    eventually(is_decided)
    assert said <= {"StateRebuilding", "CapacityExceeded"}
    assert stage.kubelet.prepare(too_much).error.startswith("CapacityExceeded: ")
    rest = stage.control.claim(share(stage.host.device(0), f"{left_mib}Mi", "0"))
    assert stage.kubelet.prepare(rest).error == ""
    assert stage.kubelet.unprepare(rest) == ""


@pytest.mark.parametrize("kind", [*KINDS, "journal"])
def test_a_damaged_state_is_rebuilt_under_a_running_claim(stage: Scene, kind: str) -> None:
    """The claim is held and answered as before, its files are not touched, and it can end."""
    first = stage.started()
    claim, result = running(stage)
    spec, region = stage.host.spec(claim.uid), stage.host.region(claim.uid)
    before = spec.read_bytes()
    files = identity(spec), region.stat().st_ino
    with using(region):
        first.kill()
        if kind == "journal":
            damage_one(max(stage.host.state.glob("journal.*")))
        else:
            damage(stage.host.state, kind)

        agent = stage.started()
        check_not_double_booked(stage, 20000)

        assert agent.wait_logged("state found damaged")["level"] == "error"
        assert stage.host.holdings() == held(claim.uid)
        assert (identity(spec), region.stat().st_ino) == files
        assert stage.kubelet.prepare(claim) == answer(claim, result)
        assert spec.read_bytes() == before
        assert region.stat().st_ino == files[1]
        assert region.read_bytes()[:4] == b"used"
    (aside,) = stage.host.plugin.glob("state.damaged-*")
    assert {path.name.partition(".")[0] for path in aside.iterdir()} == {"snapshot", "journal"}
    eventually(lambda: "CheckpointRebuilt" in stage.control.event_reasons("Node"))
    assert stage.kubelet.unprepare(claim) == ""
    assert stage.host.holdings() == Holdings()
    assert stage.kubelet.prepare(claim).error.startswith("ClaimWasReleased: ")


def test_a_rebuild_waits_for_the_api_server(stage: Scene) -> None:
    """Until it answers nothing is prepared or lost, and what ends can be unprepared."""
    first = stage.started()
    claim, result = running(stage, "10000Mi")
    ending, _ = running(stage, "1000Mi")
    first.kill()
    damage(stage.host.state)
    stage.control.run(stage.control.server.pause())

    agent = stage.started()
    eventually(lambda: "waits for the API server" in stage.kubelet.prepare(claim).error)
    assert stage.kubelet.prepare(claim).error.startswith("StateRebuilding: ")
    assert "state: failed: waits for the API server" in agent.ask("/readyz")[1]
    assert stage.kubelet.unprepare(ending) == ""
    assert stage.host.spec(claim.uid).exists()
    assert not stage.host.spec(ending.uid).exists()

    stage.control.run(stage.control.server.resume())
    eventually(lambda: is_rebuilt(agent))
    assert stage.host.holdings() == held(claim.uid)
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    check_not_double_booked(stage, 10000)


def test_a_claim_of_a_force_deleted_pod_is_held_until_it_is_unprepared(stage: Scene) -> None:
    """The API server does not know it any more; what its spec says is not given away."""
    first = stage.started()
    claim, _ = running(stage)
    spec = stage.host.spec(claim.uid).read_bytes()
    stage.control.delete(claim)
    first.kill()
    damage(stage.host.state)

    stage.started()
    check_not_double_booked(stage, 20000)
    assert stage.host.spec(claim.uid).read_bytes() == spec
    assert stage.host.holdings() == held(claim.uid)
    assert stage.kubelet.unprepare(claim) == ""
    assert stage.host.holdings() == Holdings()
    check_not_double_booked(stage, 0)


def test_a_running_container_keeps_its_library_over_a_rebuild(stage: Scene) -> None:
    """The node has another library by now, which is for containers that start later."""
    first = stage.started()
    claim, result = running(stage)
    spec = stage.host.spec(claim.uid).read_bytes()
    first.kill()
    damage(stage.host.state)
    shutil.copy(another_library(), stage.host.library)

    agent = stage.started()
    eventually(lambda: is_rebuilt(agent))
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    assert stage.host.spec(claim.uid).read_bytes() == spec
    later_result = share(stage.host.device(1))
    later = stage.control.claim(later_result)
    assert stage.kubelet.prepare(later) == answer(later, later_result)
    library = stage.host.claims()[later.uid].options
    assert library is not None
    assert library.library_sha256.encode() not in spec


def another_library() -> Path:
    """Return a shared object that this interpreter has loaded."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    return Path(next(name for name in files if name.endswith(suffix)))


@pytest.mark.parametrize("rebooted", [False, True])
def test_a_reboot_with_a_damaged_state_makes_the_claim_anew(
    stage: Scene, *, rebooted: bool
) -> None:
    """Kubelet starts its containers again after a boot, and they find an empty region."""
    first = stage.started()
    claim, result = running(stage)
    region = stage.host.region(claim.uid)
    first.kill()
    damage(stage.host.state)
    if rebooted:
        content = region.read_bytes()
        stage.host.reboot()
        # As where the agent may not mount: the region is on the disk.
        region.write_bytes(content)
    with using(region):
        agent = stage.started()
        eventually(lambda: is_rebuilt(agent))
        assert stage.kubelet.prepare(claim) == answer(claim, result)
        assert (region.read_bytes()[:4] == b"used") != rebooted
    assert stage.host.claims()[claim.uid].boot_id == stage.host.boot_id()
    assert stage.host.holdings() == held(claim.uid)
    check_not_double_booked(stage, 20000)
