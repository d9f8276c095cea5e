"""Is the plugin alive? It is when kubelet would get an answer.

The probes take kubelet's way: they dial the plugin's own two sockets, ask who is there, and
prepare an empty list of claims, which must be cheap and must not wait for another call's locks.
"""

from collections.abc import Callable
from pathlib import Path

import grpc

from dra.sockets import SocketPaths
from protos import dra_v1_pb2, dra_v1_pb2_grpc
from protos import pluginregistration_v1_pb2 as registration
from protos import pluginregistration_v1_pb2_grpc as registration_grpc

TIMEOUT_S = 2.0
_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    # Channels of one process share connections otherwise.
    ("grpc.use_local_subchannel_pool", 1),
)


class SocketChecks:
    """Dials both sockets anew each time: an old connection would not notice a lost file."""

    def __init__(self, sockets: SocketPaths) -> None:
        self._sockets = sockets

    def checks(self) -> dict[str, Callable[[], str | None]]:
        """Return the checks by name."""
        return {"registration": self._registration, "dra": self._dra}

    def _registration(self) -> str | None:
        with _channel(self._sockets.registration) as channel:
            stub = registration_grpc.RegistrationStub(channel)
            return _failure(lambda: stub.GetInfo(registration.InfoRequest(), timeout=TIMEOUT_S))

    def _dra(self) -> str | None:
        with _channel(self._sockets.dra) as channel:
            stub = dra_v1_pb2_grpc.DRAPluginStub(channel)
            nothing = dra_v1_pb2.NodePrepareResourcesRequest()
            return _failure(lambda: stub.NodePrepareResources(nothing, timeout=TIMEOUT_S))


def _channel(path: Path) -> grpc.Channel:
    return grpc.insecure_channel(f"unix:{path}", options=_OPTIONS)


def _failure(call: Callable[[], object]) -> str | None:
    try:
        call()
    except grpc.RpcError as error:
        return f"{error.code().name}: {error.details()}"
    return None
