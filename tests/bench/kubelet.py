"""Kubelet's side of both sockets, as little of it as it takes to measure the other side."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from protos import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)
from tests.bench.claims import NAMESPACE, Claim

_LOOK_EVERY_S: Final = 0.002
_OPTIONS: Final = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))


class Kubelet:
    """Registers the plugin that appears in *registry*, then calls it."""

    def __init__(self, registry: Path, *, timeout_s: float = 30.0) -> None:
        socket = _appeared(registry, timeout_s)
        with grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            stub = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
            info = stub.GetInfo(pluginregistration_v1_pb2.InfoRequest(), timeout=timeout_s)
            status = pluginregistration_v1_pb2.RegistrationStatus(plugin_registered=True)
            stub.NotifyRegistrationStatus(status, timeout=timeout_s)
        self.registered_s = time.monotonic()
        self._channel = grpc.insecure_channel(f"unix:{info.endpoint}", options=_OPTIONS)
        self._plugin = dra_v1_pb2_grpc.DRAPluginStub(self._channel)

    def prepare(self, claim: Claim) -> float:
        """Prepare *claim* and return the milliseconds that it took."""
        request = dra_v1_pb2.NodePrepareResourcesRequest(claims=[_reference(claim)])
        began = time.perf_counter()
        answer = self._plugin.NodePrepareResources(request, timeout=45)
        took_ms = (time.perf_counter() - began) * 1000
        _check(answer.claims[claim.uid])
        return took_ms

    def unprepare(self, claim: Claim) -> float:
        """Unprepare *claim* and return the milliseconds that it took."""
        request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=[_reference(claim)])
        began = time.perf_counter()
        answer = self._plugin.NodeUnprepareResources(request, timeout=45)
        took_ms = (time.perf_counter() - began) * 1000
        _check(answer.claims[claim.uid])
        return took_ms

    def prepare_together(self, claims: Sequence[Claim], threads: int) -> tuple[list[float], float]:
        """Prepare *claims*, *threads* at a time; return milliseconds of each, seconds of all."""
        with ThreadPoolExecutor(threads) as pool:
            began = time.perf_counter()
            took_ms = list(pool.map(self.prepare, claims))
            return took_ms, time.perf_counter() - began

    def close(self) -> None:
        """Hang up."""
        self._channel.close()


def _appeared(registry: Path, timeout_s: float) -> Path:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if registry.is_dir():
            for path in registry.glob("*.sock"):
                return path
        time.sleep(_LOOK_EVERY_S)
    raise TimeoutError(str(registry))


def _reference(claim: Claim) -> Any:
    return dra_v1_pb2.Claim(namespace=NAMESPACE, name=claim.name, uid=claim.uid)


def _check(entry: Any) -> None:
    if entry.error:
        raise RuntimeError(entry.error)
