"""How the agent ends: everything stays that pods and the scheduler need."""

import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from protos import dra_health_v1_pb2, dra_health_v1_pb2_grpc
from sim.apiserver import kubeconfig
from tests.agent.control_plane import share
from tests.agent.host import Holdings, held
from tests.agent.kubelet import answer, register
from tests.agent.process import Agent
from tests.agent.scene import Scene
from tests.patience import eventually


def sockets(stage: Scene) -> set[str]:
    """Return the names of the plugin's sockets."""
    found = [*stage.host.plugin.iterdir(), *stage.host.registry.iterdir()]
    return {path.name for path in found if path.is_socket()}


def test_sigterm_leaves_slices_and_claims(stage: Scene) -> None:
    """The end takes the sockets away, ends open streams, and touches nothing else."""
    result = share(stage.host.device(0))
    claim = stage.control.claim(result)
    agent = stage.started()
    assert sockets(stage) == {"dra.sock", "gpuslice.io-reg.sock"}
    assert stage.kubelet.prepare(claim) == answer(claim, result)
    eventually(stage.control.slices)
    slices = stage.control.slices()
    with grpc.insecure_channel(f"unix:{stage.host.plugin / 'dra.sock'}") as channel:
        stub = dra_health_v1_pb2_grpc.DRAResourceHealthStub(channel)
        stream = stub.NodeWatchResources(dra_health_v1_pb2.NodeWatchResourcesRequest())
        next(stream)

        assert agent.terminate() == 0

    assert agent.log()[-1]["event"] == "plugin stopped"
    assert sockets(stage) == set()
    assert stage.control.slices() == slices
    assert stage.host.holdings() == held(claim.uid)


def test_sigterm_is_never_handled_between_other_things(stage: Scene) -> None:
    """One thread waits for it, and no other may take it, at whichever moment it comes."""
    masks = stage.started().blocked_signals()
    assert len(masks) > 1
    for number in (signal.SIGTERM, signal.SIGINT):
        # The kernel shows what a thread waits for by sigwait as not blocked.
        free = [mask for mask in masks if not mask >> (number - 1) & 1]
        assert len(free) == 1


def test_sigterm_does_not_wait_for_a_silent_server(stage: Scene) -> None:
    """A call that waits for the API server is given up, and nothing of it goes on afterwards."""
    claim = stage.control.claim(share(stage.host.device(0)))
    with socket.create_server(("127.0.0.1", 0)) as silent, ExitStack() as stack:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        token = stage.control.call(stage.control.server.token_for, "admin")
        kubeconfig.write(stage.kubeconfig, url=url, user="admin", token=token)
        agent = stage.started("--resource-api-version", "v1")
        call = stage.kubelet.begin_prepare(claim)
        request = b""
        while b"/resourceclaims/" not in request:
            connection = stack.enter_context(silent.accept()[0])
            request = connection.recv(4096)

        assert agent.terminate() == 0

        assert isinstance(call.exception(), grpc.RpcError)
    assert agent.log()[-1]["event"] == "plugin stopped"
    assert stage.host.holdings() == Holdings()


def check_nvml_ended(agent: Agent) -> None:
    """Check that the agent ended its last session itself, before it said that it stopped."""
    events = [record["event"] for record in agent.log()]
    assert events[-1] == "plugin stopped"
    assert events.index("nvml session closed") < len(events) - 1
    assert events.count("last simulated nvml session ended") == 1


def test_sigterm_ends_the_nvml_session(stage: Scene) -> None:
    """A driver can be replaced: no session is open, and no device node was held beside it."""
    agent = stage.started("--log-level", "debug")
    agent.wait_logged("inventory read")
    descriptors = [
        str(path.readlink()) for path in Path(f"/proc/{agent._process.pid}/fd").iterdir()
    ]

    assert agent.terminate() == 0

    assert not [path for path in descriptors if "nvidia" in path]
    check_nvml_ended(agent)


@pytest.mark.parametrize("call", ["nvmlDeviceGetName", "nvmlDeviceRegisterEvents"])
def test_sigterm_does_not_wait_for_a_slow_driver(stage: Scene, call: str) -> None:
    """A look that would take a minute ends after the call that is under way."""
    stage.host.set_gpus(f"delays_s: {{{call}: 0.2}}\ngpus: [{{profile: l4, count: 300}}]")
    agent = stage.started("--log-level", "debug")
    agent.wait_logged("simulated nvml session begun")

    assert agent.terminate() == 0

    assert "inventory read" not in {record["event"] for record in agent.log()}
    check_nvml_ended(agent)


def test_after_a_restart_all_is_as_it_was(stage: Scene) -> None:
    """Slices and claims are, and so is what the driver says of a GPU; nothing is written anew."""
    result = share(stage.host.device(0))
    claim = stage.control.claim(result)
    stage.host.set_gpus("gpus: [{profile: l4, recovery_action: gpu-reset}, {profile: a10}]")
    first = stage.started()
    ailing = first.wait_logged("gpu ailing")
    assert (ailing["uuid"], ailing["code"]) == (stage.host.gpus[0].uuid, "GpuResetNeeded")
    answered = stage.kubelet.prepare(claim)
    eventually(stage.control.slices)
    register(stage.host.registry / "gpuslice.io-reg.sock")
    eventually(lambda: first.ask("/readyz")[0] == 200)
    slices = stage.control.slices()

    assert first.terminate() == 0
    second = stage.started()

    again = second.wait_logged("gpu ailing")
    assert (again["uuid"], again["code"]) == (ailing["uuid"], ailing["code"])
    register(stage.host.registry / "gpuslice.io-reg.sock")
    eventually(lambda: second.ask("/readyz")[0] == 200)
    assert stage.control.slices() == slices
    assert stage.kubelet.prepare(claim) == answered
    assert stage.host.holdings() == held(claim.uid)


def test_an_xid_does_not_outlive_the_agent(stage: Scene) -> None:
    """Nobody keeps it; what is still wrong the driver says, or reports again."""
    stage.host.set_gpus("gpus: [{profile: l4}]")
    first = stage.started()
    first.wait_logged("inventory read")
    stage.host.set_gpus("gpus: [{profile: l4, xids: [79]}]")
    assert first.wait_logged("gpu ailing")["code"] == "Xid79"

    assert first.terminate() == 0
    second = stage.started()

    assert second.wait_logged("inventory read")["ailments"] == 0


def test_an_agent_that_registered_is_ready(stage: Scene) -> None:
    """Readiness follows registration, GPUs and slices, each with a line of its own."""
    agent = stage.started()
    assert "kubelet: failed: waiting for kubelet" in agent.ask("/readyz")[1]

    info = register(stage.host.registry / "gpuslice.io-reg.sock")

    assert (info.type, info.name) == ("DRAPlugin", "gpuslice.io")
    assert info.endpoint == str(stage.host.plugin / "dra.sock")
    eventually(lambda: agent.ask("/readyz")[0] == 200)
    lines = agent.ask("/readyz")[1].splitlines()
    checks = {line.removesuffix(": ok") for line in lines}
    assert checks >= {"registration", "dra", "kubelet", "gpus", "slices"}
    assert all(line.endswith(": ok") for line in lines)


def test_stale_sockets_of_a_killed_agent_are_replaced(stage: Scene) -> None:
    """An agent that follows a killed one serves on the same sockets."""
    stage.started().kill()
    assert sockets(stage) == {"dra.sock", "gpuslice.io-reg.sock"}

    stage.started()

    assert register(stage.host.registry / "gpuslice.io-reg.sock").name == "gpuslice.io"
