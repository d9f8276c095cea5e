"""The two gRPC servers and the order in which they start and stop.

Removing the registration socket is how a plugin de-registers, so it goes first, and calls in
flight may finish before the DRA socket goes. Health streams hold a thread each for as long as
kubelet runs: the pool has room for all of them besides the calls.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from dra.health import MAX_STREAMS, HealthStreams
from dra.registration import RegistrationServicer
from dra.service import V1, DraService, HealthV1, HealthV1Alpha1, V1Beta1
from protos import (
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2_grpc,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2_grpc,
    pluginregistration_v1_pb2_grpc,
)

CALL_THREADS = 8
GRACE_S = 0.5

_OPTIONS = (
    # Kubelet watches its connection: one that the server closes counts as a lost plugin.
    ("grpc.max_connection_age_ms", 2**31 - 1),
    ("grpc.max_connection_idle_ms", 2**31 - 1),
)


def dra_server(path: Path, service: DraService, streams: HealthStreams) -> grpc.Server:
    """Return a server for kubelet's calls, bound to *path* but not started; raises `OSError`."""
    pool = ThreadPoolExecutor(CALL_THREADS + 2 * MAX_STREAMS, thread_name_prefix="dra")
    server = grpc.server(pool, options=_OPTIONS)
    dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(V1(service), server)
    dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(V1Beta1(service), server)
    dra_health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server(HealthV1(streams), server)
    dra_health_v1alpha1_pb2_grpc.add_DRAResourceHealthServicer_to_server(
        HealthV1Alpha1(streams), server
    )
    _bind(server, path)
    return server


def registration_server(path: Path, servicer: RegistrationServicer) -> grpc.Server:
    """Return a server for kubelet's registration, bound to *path* but not started.

    Raises `OSError`.
    """
    server = grpc.server(ThreadPoolExecutor(2, thread_name_prefix="registration"))
    pluginregistration_v1_pb2_grpc.add_RegistrationServicer_to_server(servicer, server)
    _bind(server, path)
    return server


def _bind(server: grpc.Server, path: Path) -> None:
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        message = f"{path}: {error}"
        raise OSError(message) from error
