"""What a killed process leaves in its claim's region is gone before the next one looks there."""

import time
from pathlib import Path

import pytest

from tests.agent.control_plane import NAMESPACE, Claim, share
from tests.agent.host import NODE
from tests.agent.kubelet import Kubelet, answer
from tests.agent.scene import Scene
from tests.patience import eventually
from tests.region_user import Use, is_empty, leave_marks, using

_RARELY = ("--restore-interval-s", "3600")


def prepared(stage: Scene, kubelet: Kubelet | None = None) -> tuple[Claim, Path]:
    """Prepare a claim that has a region, and return both."""
    result = share(stage.host.device(0))
    claim = stage.control.claim(result)
    assert (kubelet or stage.kubelet).prepare(claim) == answer(claim, result)
    return claim, stage.host.region(claim.uid)


def create_pod(stage: Scene) -> None:
    """Let the pods of the node change."""
    container = {"name": "app", "image": "example.com/app"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "namespace": NAMESPACE},
        "spec": {"nodeName": NODE, "containers": [container]},
    }
    stage.control.run(stage.control.server.api.create("pods", pod))


def test_region_of_a_killed_process_is_reset(stage: Scene) -> None:
    """The agent sees its end by itself; neither kubelet nor the API server has to say anything."""
    agent = stage.started(*_RARELY)
    claim, region = prepared(stage)
    with using(region) as user:
        user.kill()
    eventually(lambda: is_empty(region))
    with using(region) as user:
        assert user.found() == "zeros"
    assert agent.wait_logged("region reset")["claim_uid"] == claim.uid


def test_region_of_a_running_process_outlives_agents(stage: Scene) -> None:
    """Neither the end of an agent nor the start of the next one takes a limit away."""
    old = stage.started()
    claim, region = prepared(stage)
    with using(region) as user:
        before = region.read_bytes()
        assert old.terminate() == 0
        new = stage.started("--restore-interval-s", "0.1")
        for _ in range(3):
            assert stage.kubelet.prepare(claim).devices
        # A second claim tells that all regions were looked at since.
        _, other = prepared(stage)
        leave_marks(other)
        eventually(lambda: is_empty(other))
        assert region.read_bytes() == before
        user.kill()
        eventually(lambda: is_empty(region))
    assert new.exit_code is None


def test_process_that_ended_while_no_agent_ran(stage: Scene) -> None:
    """The start of an agent resets what nobody uses by then."""
    agent = stage.started(*_RARELY)
    _, region = prepared(stage)
    agent.kill()
    leave_marks(region)
    assert not is_empty(region)
    stage.started(*_RARELY)
    eventually(lambda: is_empty(region))


@pytest.mark.parametrize("by", ["pods", "restore"])
def test_end_that_nobody_tells(stage: Scene, by: str) -> None:
    """Where the kernel says nothing, a change of the node's pods or the next repair finds it."""
    flags = ("--restore-interval-s", "0.1") if by == "restore" else _RARELY
    stage.started(*flags)
    _, region = prepared(stage)
    # Nobody is told of the end of one who only read, and for a while it is looked for anyway.
    with using(region, Use.READS):
        leave_marks(region)
        assert not is_empty(region)
        time.sleep(1.0)
    if by == "pods":
        create_pod(stage)
    eventually(lambda: is_empty(region))


def test_two_agents_reset_without_harm(stage: Scene) -> None:
    """Both see the end of a process; who comes second finds nothing to do."""
    agents = [stage.started("--pod-uid", uid, *_RARELY) for uid in ("old", "new")]
    kubelet = Kubelet(stage.host.plugin / "dra-new.sock")
    _, region = prepared(stage, kubelet)
    kubelet.close()
    for _ in range(5):
        leave_marks(region)
        eventually(lambda: is_empty(region))
    with using(region) as user:
        before = region.read_bytes()
        assert agents[0].terminate() == 0
        assert region.read_bytes() == before
        user.kill()
        eventually(lambda: is_empty(region))
