"""Two agents at once, as a rolling update of the DaemonSet has them."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc

from cdi.faults import FaultPoint
from tests.agent.control_plane import share
from tests.agent.host import Holdings, held
from tests.agent.kubelet import Kubelet, answer, register
from tests.agent.process import Agent
from tests.agent.scene import Scene
from tests.patience import eventually

OLD = "0b9d4f6e-1111-4222-8333-944445555666"
NEW = "f1e2d3c4-1111-4222-8333-944445555666"


@contextmanager
def registered(stage: Scene, pod_uid: str) -> Iterator[Kubelet]:
    """Register the agent of *pod_uid* as kubelet does and connect to it."""
    info = register(stage.host.registry / f"gpuslice.io-{pod_uid}-reg.sock")
    kubelet = Kubelet(Path(info.endpoint))
    try:
        yield kubelet
    finally:
        kubelet.close()


def both(stage: Scene) -> tuple[Agent, Agent]:
    """Start the old agent and beside it the new one."""
    return stage.started("--pod-uid", OLD), stage.started("--pod-uid", NEW)


def sockets(directory: Path) -> set[str]:
    """Return the names of the sockets in *directory*."""
    return {path.name for path in directory.iterdir() if path.is_socket()}


def test_either_agent_knows_what_the_other_prepared(stage: Scene) -> None:
    """A claim prepared by one is answered, counted and unprepared by the other."""
    both(stage)
    device = stage.host.device(0)
    first, second = share(device, "20000Mi", "0"), share(device, "20000Mi", "0")
    claim, other = stage.control.claim(first), stage.control.claim(second)
    with registered(stage, OLD) as old, registered(stage, NEW) as new:
        assert old.prepare(claim) == answer(claim, first)
        assert new.prepare(claim) == answer(claim, first)
        assert new.prepare(other).error.startswith("CapacityExceeded: ")
        assert new.unprepare(claim) == ""
        assert old.prepare(claim).error.startswith("ClaimWasReleased: ")
        assert old.prepare(other) == answer(other, second)
        assert stage.host.holdings() == held(other.uid)
        assert new.unprepare(other) == ""
        assert old.unprepare(other) == ""
    assert stage.host.holdings() == Holdings()


def test_the_end_of_the_old_agent_leaves_the_new_one_alone(stage: Scene) -> None:
    """Each takes only its own sockets with it; slices and claims pass to the one that stays."""
    host = stage.host
    leaving, staying = both(stage)
    result = share(host.device(0))
    claim = stage.control.claim(result)
    eventually(stage.control.slices)
    published = stage.control.slices()
    with registered(stage, OLD) as old, registered(stage, NEW) as new:
        assert old.prepare(claim) == answer(claim, result)

        assert leaving.terminate() == 0

        assert sockets(host.plugin) == {f"dra-{NEW}.sock"}
        assert sockets(host.registry) == {f"gpuslice.io-{NEW}-reg.sock"}
        assert new.prepare(claim) == answer(claim, result)
        assert host.holdings() == held(claim.uid)
        eventually(lambda: staying.ask("/readyz")[0] == 200)
        assert stage.control.slices() == published
        assert staying.metrics()["gpuslice_granted_memory_mib"].popitem()[1] == 3000


def test_an_agent_that_starts_leaves_the_sockets_of_a_running_one(stage: Scene) -> None:
    """Only sockets on which nobody listens are cleaned up at a start."""
    gone = stage.started("--pod-uid", "gone")
    stage.started("--pod-uid", OLD)
    gone.kill()

    stage.started("--pod-uid", NEW)

    assert sockets(stage.host.plugin) == {f"dra-{OLD}.sock", f"dra-{NEW}.sock"}
    with registered(stage, OLD) as old, registered(stage, NEW) as new:
        assert not old.prepare_all().claims
        assert not new.prepare_all().claims


def test_two_agents_do_not_book_twice(stage: Scene) -> None:
    """Calls that meet in two processes fill a GPU exactly."""
    both(stage)
    results = [share(stage.host.device(0), "1000Mi", "10") for _ in range(20)]
    claims = [stage.control.claim(result) for result in results]
    with ExitStack() as stack:
        kubelets = [stack.enter_context(registered(stage, uid)) for uid in (OLD, NEW)]
        pool = stack.enter_context(ThreadPoolExecutor(8))
        calls = [pool.submit(kubelets[i % 2].prepare, claim) for i, claim in enumerate(claims)]
        errors = [call.result().error for call in calls]

        granted = [claim for claim, error in zip(claims, errors, strict=True) if not error]
        refused = {error.partition(":")[0] for error in errors if error}
        assert len(granted) == 10
        assert refused == {"CapacityExceeded"}
        assert stage.host.holdings() == held(*(claim.uid for claim in granted))
        releases = [pool.submit(kubelets[1 - i % 2].unprepare, c) for i, c in enumerate(granted)]
        assert {release.result() for release in releases} == {""}
    assert stage.host.holdings() == Holdings()


def test_both_agents_are_called_for_the_same_claims_at_once(stage: Scene) -> None:
    """Kubelet may change over in the middle of a retry: each claim ends up held once, then not."""
    agents = both(stage)
    results = [share(stage.host.device(0), "2000Mi", "10") for _ in range(10)]
    claims = [stage.control.claim(result) for result in results]
    with ExitStack() as stack:
        kubelets = [stack.enter_context(registered(stage, uid)) for uid in (OLD, NEW)]
        pool = stack.enter_context(ThreadPoolExecutor(8))
        for _time in range(3):
            calls = [
                (pool.submit(kubelet.prepare, claim), answer(claim, result))
                for claim, result in zip(claims, results, strict=True)
                for kubelet in kubelets
            ]
            assert [call.result() for call, _ in calls] == [expected for _, expected in calls]
        assert stage.host.holdings() == held(*(claim.uid for claim in claims))
        for agent in agents:
            assert agent.metrics()["gpuslice_prepared_claims"] == {(): 10.0}
        releases = [
            pool.submit(kubelet.unprepare, claim) for claim in claims for kubelet in kubelets
        ]
        assert {release.result() for release in releases} == {""}
        assert stage.host.holdings() == Holdings()
        for agent in agents:
            assert agent.metrics()["gpuslice_prepared_claims"] == {(): 0.0}


def test_what_one_agent_prepares_the_other_counts_at_once(stage: Scene) -> None:
    """Metrics say what is granted on the node, whichever process is asked."""
    _, new_agent = both(stage)
    claim = stage.control.claim(share(stage.host.device(0)))
    with registered(stage, OLD) as old:
        assert old.prepare(claim).error == ""
        assert [*new_agent.metrics()["gpuslice_granted_memory_mib"].values()] == [3000.0]
        assert old.unprepare(claim) == ""
        assert "gpuslice_granted_memory_mib" not in new_agent.metrics()


def test_the_old_agent_is_killed_while_both_are_called(stage: Scene) -> None:
    """Whatever it was doing, the new one ends it; nothing is held twice or for ever."""
    old_agent, new_agent = both(stage)
    results = [share(stage.host.device(0), "2000Mi", "10") for _ in range(10)]
    claims = [stage.control.claim(result) for result in results]
    with ExitStack() as stack:
        kubelets = [stack.enter_context(registered(stage, uid)) for uid in (OLD, NEW)]
        old, new = kubelets
        pool = stack.enter_context(ThreadPoolExecutor(8))
        for claim in claims[:5]:
            assert old.prepare(claim).error == ""
        old_agent.die_at(FaultPoint.SPEC_DELETED)
        releases = [pool.submit(old.unprepare, claim) for claim in claims[:5]]
        prepares = [pool.submit(new.prepare, claim) for claim in claims[5:]]
        failed = [call for call in releases if call.exception() is not None]
        assert failed
        assert all(isinstance(call.exception(), grpc.RpcError) for call in failed)
        assert old_agent.wait_ended() == -signal.SIGKILL
        assert [call.result().error for call in prepares] == [""] * 5

        for claim in claims[:5]:
            assert new.unprepare(claim) == ""
        assert stage.host.holdings() == held(*(claim.uid for claim in claims[5:]))
        for claim, result in zip(claims[5:], results[5:], strict=True):
            assert new.prepare(claim) == answer(claim, result)
        assert new_agent.metrics()["gpuslice_prepared_claims"] == {(): 5.0}
        full = stage.control.claim(share(stage.host.device(0), "2000Mi", "51"))
        assert new.prepare(full).error.startswith("CapacityExceeded: ")
        for claim in claims[5:]:
            assert new.unprepare(claim) == ""
    assert stage.host.holdings() == Holdings()
