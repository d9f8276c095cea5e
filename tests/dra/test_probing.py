"""The probes take kubelet's way through both sockets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dra.probing import SocketChecks
from dra.registration import RegistrationServicer
from dra.sockets import SocketPaths
from tests.dra.nodes import Node
from tests.dra.sockets import registering, serving
from tests.fakes.claim_server import ClaimServer


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Run a plugin whose API server knows nothing."""
    with ClaimServer() as server:
        node = Node(tmp_path, server)
        yield node
        node.close()


def failures(sockets: SocketPaths) -> dict[str, bool]:
    """Return which checks fail."""
    checks = SocketChecks(sockets).checks()
    return {name: check() is not None for name, check in checks.items()}


def test_a_serving_plugin_is_alive(tmp_path: Path, node: Node) -> None:
    """Also while a call holds the state; a socket that is lost is noticed at once."""
    sockets = SocketPaths(registration=tmp_path / "reg.sock", dra=tmp_path / "dra.sock")
    servicer = RegistrationServicer(str(sockets.dra))
    with registering(sockets.registration, servicer), serving(sockets.dra, node.preparer):
        with node.store.transaction():
            assert failures(sockets) == {"registration": False, "dra": False}
        sockets.dra.rename(tmp_path / "moved.sock")
        assert failures(sockets) == {"registration": False, "dra": True}
        (tmp_path / "moved.sock").rename(sockets.dra)
        sockets.registration.unlink()
        assert failures(sockets) == {"registration": True, "dra": False}


def test_a_plugin_that_is_not_there_is_not_alive(tmp_path: Path) -> None:
    """The failure says what gRPC said."""
    sockets = SocketPaths(registration=tmp_path / "reg.sock", dra=tmp_path / "dra.sock")
    assert failures(sockets) == {"registration": True, "dra": True}
    assert "UNAVAILABLE" in str(SocketChecks(sockets).checks()["dra"]())
