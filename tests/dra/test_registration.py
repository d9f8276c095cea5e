"""What kubelet is told at registration, over a real socket."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from dra.registration import RegistrationServicer
from dra.server import registration_server
from protos import pluginregistration_v1_pb2 as messages
from protos import pluginregistration_v1_pb2_grpc as services
from tests.dra.sockets import channel_to, registering

ENDPOINT = "/var/lib/kubelet/plugins/gpuslice.io/dra.sock"


@pytest.fixture
def servicer() -> RegistrationServicer:
    """Make the service of a plugin."""
    return RegistrationServicer(ENDPOINT)


@pytest.fixture
def stub(tmp_path: Path, servicer: RegistrationServicer) -> Iterator[services.RegistrationStub]:
    """Connect to the service as kubelet does."""
    path = tmp_path / "reg.sock"
    with registering(path, servicer), channel_to(path) as channel:
        yield services.RegistrationStub(channel)


def notify(stub: services.RegistrationStub, *, registered: bool, error: str = "") -> None:
    """Tell the plugin kubelet's verdict."""
    status = messages.RegistrationStatus(plugin_registered=registered, error=error)
    stub.NotifyRegistrationStatus(status, timeout=20)


def test_kubelet_learns_type_name_endpoint_and_versions(stub: services.RegistrationStub) -> None:
    """Kubelet takes the first DRA service it knows, so the newest comes first."""
    info = stub.GetInfo(messages.InfoRequest(), timeout=20)
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", "gpuslice.io", ENDPOINT)
    assert list(info.supported_versions) == [
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    ]


def test_a_restarted_kubelet_may_ask_again(stub: services.RegistrationStub) -> None:
    """Each time with the same answer."""
    first = stub.GetInfo(messages.InfoRequest(), timeout=20)
    notify(stub, registered=True)
    assert stub.GetInfo(messages.InfoRequest(), timeout=20) == first


def test_registration_is_noted(
    stub: services.RegistrationStub, servicer: RegistrationServicer
) -> None:
    """Until kubelet has said so the plugin is not ready."""
    assert servicer.problem() == "waiting for kubelet to register the plugin"
    notify(stub, registered=True)
    assert servicer.problem() is None


def test_a_refusal_is_an_error_and_is_remembered(
    stub: services.RegistrationStub, servicer: RegistrationServicer
) -> None:
    """Kubelet's reason reaches the readiness probe; a later success ends it."""
    with pytest.raises(grpc.RpcError, match="no handler") as caught:
        notify(stub, registered=False, error="no handler registered for plugin type: DRAPlugin")
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert servicer.problem() == (
        "kubelet refused the plugin: no handler registered for plugin type: DRAPlugin"
    )
    notify(stub, registered=True)
    assert servicer.problem() is None
    assert servicer.overdue() is None


def test_a_silent_kubelet_is_complained_about(servicer: RegistrationServicer) -> None:
    """After a minute it is likely that kubelet looks elsewhere."""
    servicer._started -= 61
    assert "root directory" in str(servicer.problem())
    assert "root directory" in str(servicer.overdue())


def test_the_socket_goes_with_the_server(tmp_path: Path, servicer: RegistrationServicer) -> None:
    """Its removal is how a plugin de-registers."""
    path = tmp_path / "reg.sock"
    with registering(path, servicer):
        assert path.is_socket()
    assert not path.exists()


def test_a_socket_that_cannot_be_made_is_named(
    tmp_path: Path, servicer: RegistrationServicer
) -> None:
    """The start fails with the path."""
    path = tmp_path / "missing" / "reg.sock"
    with pytest.raises(OSError, match=str(path)):
        registration_server(path, servicer)
