"""Kubelet's calls over the plugin's real sockets."""

from pathlib import Path
from typing import Any

import grpc

from gpu import names
from protos import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)
from tests.agent.control_plane import Claim, JsonObject

CALL_S = 40.0
_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 100),
)


def register(socket: Path) -> pluginregistration_v1_pb2.PluginInfo:
    """Ask the plugin behind a registration *socket* who it is, and tell it that it is taken."""
    with _channel(socket) as channel:
        stub = pluginregistration_v1_pb2_grpc.RegistrationStub(channel)
        request = pluginregistration_v1_pb2.InfoRequest()
        info = stub.GetInfo(request, timeout=CALL_S, wait_for_ready=True)
        status = pluginregistration_v1_pb2.RegistrationStatus(plugin_registered=True)
        stub.NotifyRegistrationStatus(status, timeout=CALL_S)
        return info


class Kubelet:
    """A connection to one plugin's DRA socket; it is made anew when the plugin restarts."""

    def __init__(self, socket: Path) -> None:
        self._open = _channel(socket)
        self._v1 = dra_v1_pb2_grpc.DRAPluginStub(self._open)
        self._v1beta1 = dra_v1beta1_pb2_grpc.DRAPluginStub(self._open)

    def close(self) -> None:
        """Close the connection."""
        self._open.close()

    def prepare_all(self, *claims: Claim) -> dra_v1_pb2.NodePrepareResourcesResponse:
        """Prepare *claims* in one call."""
        request = dra_v1_pb2.NodePrepareResourcesRequest(claims=[one.message() for one in claims])
        return self._v1.NodePrepareResources(request, timeout=CALL_S, wait_for_ready=True)

    def prepare(self, claim: Claim) -> dra_v1_pb2.NodePrepareResourceResponse:
        """Prepare one claim and return its entry."""
        return self.prepare_all(claim).claims[claim.uid]

    def begin_prepare(self, claim: Claim) -> "grpc.Future[Any]":
        """Send the call that prepares one claim, without waiting for the answer."""
        request = dra_v1_pb2.NodePrepareResourcesRequest(claims=[claim.message()])
        call = self._v1.NodePrepareResources
        return call.future(request, timeout=CALL_S, wait_for_ready=True)

    def prepare_v1beta1(self, claim: Claim) -> dra_v1beta1_pb2.NodePrepareResourceResponse:
        """Prepare one claim by the older version."""
        one = dra_v1beta1_pb2.Claim(namespace=claim.namespace, name=claim.name, uid=claim.uid)
        request = dra_v1beta1_pb2.NodePrepareResourcesRequest(claims=[one])
        answer = self._v1beta1.NodePrepareResources(request, timeout=CALL_S, wait_for_ready=True)
        return answer.claims[claim.uid]

    def unprepare(self, claim: Claim) -> str:
        """Unprepare one claim and return the error, empty for none."""
        request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=[claim.message()])
        answer = self._v1.NodeUnprepareResources(request, timeout=CALL_S, wait_for_ready=True)
        return str(answer.claims[claim.uid].error)


def answer(claim: Claim, *results: JsonObject) -> dra_v1_pb2.NodePrepareResourceResponse:
    """Return what the plugin has to answer when *claim* was allocated *results*."""
    return dra_v1_pb2.NodePrepareResourceResponse(
        devices=[_device(claim, result) for result in results]
    )


def _device(claim: Claim, result: JsonObject) -> Any:
    parts = [claim.uid, result["device"]] + ([result["shareID"]] if "shareID" in result else [])
    return dra_v1_pb2.Device(
        request_names=[result["request"].partition("/")[0]],
        pool_name=result["pool"],
        device_name=result["device"],
        cdi_device_ids=[f"k8s.{names.DRIVER}/claim={'-'.join(parts)}"],
        share_id=result.get("shareID"),
    )


def _channel(socket: Path) -> grpc.Channel:
    return grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS)
