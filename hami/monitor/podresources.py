"""Asks kubelet which container holds which devices and claims, over its PodResources socket.

`List` alone is asked: `Get` came with Kubernetes 1.27 and is behind a gate until 1.34, and one call
for the node is cheaper than one for each pod. Claims stand in the answer from 1.27 on where the
gate KubeletPodResourcesDynamicResources is on. Pods have no UID in it, so who asks has to know the
pods already. Kubelet makes its socket anew when it starts, and sends at most 16 MiB (kubelet:
pkg/kubelet/apis/podresources).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from protos import podresources_v1_pb2 as wire
from protos.podresources_v1_pb2_grpc import PodResourcesListerStub

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
_ANSWER_MAX: Final = 16 * 2**20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _ANSWER_MAX),
    # Go's server refuses the name of a socket as that of a host.
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    # Kubelet comes back within seconds of its start.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


class PodResourcesError(Exception):
    """Kubelet does not answer, or not with what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldClaimDevice:
    """A device of a claim that a container holds."""

    driver: str
    pool: str
    device: str
    share_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldClaim:
    """A claim that a container holds; *devices* are those that it may use."""

    namespace: str
    name: str
    devices: tuple[HeldClaimDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """What kubelet has given to one container."""

    namespace: str
    pod: str
    container: str
    device_ids: dict[str, tuple[str, ...]]
    """By resource of a device plugin."""
    claims: tuple[HeldClaim, ...]


class PodResources:
    """Kubelet's answers; may be used from any thread."""

    def __init__(self, socket: Path = SOCKET, *, timeout_s: float = 2.0) -> None:
        self._timeout_s = timeout_s
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS)
        self._stub = PodResourcesListerStub(self._channel)

    def containers(self) -> tuple[ContainerResources, ...]:
        """Return what each container of the node holds; `PodResourcesError` if kubelet is away."""
        try:
            answer = self._stub.List(wire.ListPodResourcesRequest(), timeout=self._timeout_s)
        except grpc.RpcError as error:
            # A call that ended in an error is one itself, which the types do not say.
            code = getattr(error, "code", lambda: grpc.StatusCode.UNKNOWN)()
            message = f"kubelet's PodResources: {code.name}"
            raise PodResourcesError(message) from error
        return tuple(_containers(answer.pod_resources))

    def close(self) -> None:
        """End the connection."""
        self._channel.close()


def _containers(pods: Iterable[wire.PodResources]) -> Iterable[ContainerResources]:
    for pod in pods:
        for container in pod.containers:
            yield ContainerResources(
                namespace=pod.namespace,
                pod=pod.name,
                container=container.name,
                device_ids=_device_ids(container.devices),
                claims=tuple(map(_claim, container.dynamic_resources)),
            )


def _device_ids(devices: Iterable[wire.ContainerDevices]) -> dict[str, tuple[str, ...]]:
    """Return the ids by resource: an entry stands there once for each NUMA node."""
    found: dict[str, tuple[str, ...]] = {}
    for each in devices:
        found[each.resource_name] = (*found.get(each.resource_name, ()), *each.device_ids)
    return found


def _claim(claim: wire.DynamicResource) -> HeldClaim:
    return HeldClaim(
        namespace=claim.claim_namespace,
        name=claim.claim_name,
        devices=tuple(
            HeldClaimDevice(
                driver=each.driver_name,
                pool=each.pool_name,
                device=each.device_name,
                share_id=each.share_id if each.HasField("share_id") else None,
            )
            for each in claim.claim_resources
            if each.driver_name
        ),
    )
