"""How the agent ends: everything stays that pods and the scheduler need."""

import socket
from contextlib import ExitStack

import grpc

from protos import dra_health_v1_pb2, dra_health_v1_pb2_grpc
from sim.apiserver import kubeconfig
from tests.agent.control_plane import share
from tests.agent.host import Holdings, held
from tests.agent.kubelet import answer, register
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


def test_sigterm_does_not_wait_for_a_silent_server(stage: Scene) -> None:
    """A call that waits for the API server is given up, and nothing of it goes on afterwards."""
    claim = stage.control.claim(share(stage.host.device(0)))
    with socket.create_server(("127.0.0.1", 0)) as silent, ExitStack() as stack:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        token = stage.control.call(stage.control.server.token_for, "admin")
        kubeconfig.write(stage.kubeconfig, url=url, user="admin", token=token)
        agent = stage.started()
        call = stage.kubelet.begin_prepare(claim)
        request = b""
        while b"/resourceclaims/" not in request:
            connection = stack.enter_context(silent.accept()[0])
            request = connection.recv(4096)

        assert agent.terminate() == 0

        assert isinstance(call.exception(), grpc.RpcError)
    assert agent.log()[-1]["event"] == "plugin stopped"
    assert stage.host.holdings() == Holdings()


def test_an_agent_that_registered_is_ready(stage: Scene) -> None:
    """Readiness follows registration, GPUs and slices, each with a line of its own."""
    agent = stage.started()
    assert "kubelet: failed: waiting for kubelet" in agent.ask("/readyz")[1]

    info = register(stage.host.registry / "gpuslice.io-reg.sock")

    assert (info.type, info.name) == ("DRAPlugin", "gpuslice.io")
    assert info.endpoint == str(stage.host.plugin / "dra.sock")
    eventually(lambda: agent.ask("/readyz")[0] == 200)
    lines = agent.ask("/readyz")[1].splitlines()
    assert lines == [
        f"{check}: ok" for check in ("registration", "dra", "kubelet", "gpus", "slices")
    ]


def test_stale_sockets_of_a_killed_agent_are_replaced(stage: Scene) -> None:
    """An agent that follows a killed one serves on the same sockets."""
    stage.started().kill()
    assert sockets(stage) == {"dra.sock", "gpuslice.io-reg.sock"}

    stage.started()

    assert register(stage.host.registry / "gpuslice.io-reg.sock").name == "gpuslice.io"
