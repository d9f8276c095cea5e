"""The plugin's gRPC servers on sockets of their own, and kubelet's side of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc

from dra.devicehealth import DeviceHealth
from dra.health import HealthStreams
from dra.metrics import Metrics
from dra.prepare import Preparer
from dra.record import PreparedClaim
from dra.registration import RegistrationServicer
from dra.server import dra_server, registration_server
from dra.service import DraService
from tests.dra.builders import NODE


def no_devices() -> list[DeviceHealth]:
    """Return that there are none."""
    return []


def nothing() -> None:
    """Do nothing after an unprepare."""


def ignore(_claim: PreparedClaim) -> None:
    """Say nothing about a prepared claim."""


@contextmanager
def channel_to(path: Path) -> Iterator[grpc.Channel]:
    """Connect as kubelet does, with nothing shared between connections."""
    options = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
    with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        yield channel


@contextmanager
def serving(
    path: Path,
    preparer: Preparer,
    *,
    devices: Callable[[], Sequence[DeviceHealth]] = no_devices,
    heartbeat_s: float = 10.0,
    metrics: Metrics | None = None,
    prepared: Callable[[PreparedClaim], None] = ignore,
) -> Iterator[HealthStreams]:
    """Serve kubelet's calls at *path*."""
    streams = HealthStreams(pool=NODE, devices=devices, heartbeat_s=heartbeat_s)
    service = DraService(preparer, metrics or Metrics(), prepared=prepared, released=nothing)
    server = dra_server(path, service, streams)
    server.start()
    try:
        yield streams
    finally:
        streams.stop()
        server.stop(grace=0.5).wait(10)


@contextmanager
def registering(path: Path, servicer: RegistrationServicer) -> Iterator[None]:
    """Serve kubelet's registration at *path*."""
    server = registration_server(path, servicer)
    server.start()
    try:
        yield
    finally:
        server.stop(grace=None).wait(10)
