"""Claims by the hundred on the node with a kubelet, prepared by calls as kubelet makes them.

A kubelet takes 110 pods, so these have none: their allocations are written as the scheduler would,
and the agent is called over its socket. It and all that it reads and writes are the real ones.
"""

import contextlib
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpu import names
from kube import paths
from kube.errors import ConflictError
from kube.objects import JsonObject
from tests.agent.control_plane import Claim
from tests.agent.kubelet import Kubelet
from tests.cluster.bench import bulk
from tests.cluster.scenes.driver import Driver, devices_of
from tests.cluster.scenes.stage import Stage

NAMESPACE: Final = "held"
FLAGS: Final = {"--shares-per-gpu": 1024}
"""Of an agent that lets so many claims use one GPU."""
# A T4 has room for 270 of these.
_MEMORY: Final = "56Mi"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldClaims:
    """Claims that have their devices, and the socket over which they are prepared."""

    claims: Sequence[Claim]
    kubelet: Kubelet

    def prepare(self, first: int = 0, count: int | None = None) -> None:
        """Prepare all of them, or *count* from the *first* on."""
        for claim in self._some(first, count):
            answer = self.kubelet.prepare(claim)
            assert not answer.error, answer.error

    def unprepare(self, first: int = 0, count: int | None = None) -> None:
        """Unprepare the same."""
        for claim in self._some(first, count):
            error = self.kubelet.unprepare(claim)
            assert not error, error

    def _some(self, first: int, count: int | None) -> Sequence[Claim]:
        return self.claims[first : None if count is None else first + count]


def connected(driver: Driver) -> Kubelet:
    """Return kubelet's side of the socket of the agent on the node with a kubelet."""
    agent = driver.first
    socket = agent.host.plugin / f"dra-{agent.pod_uid}.sock"
    # A short path, as sockets demand, and the same as that of an agent started later.
    return Kubelet(driver.cluster.mounted(socket))


@contextlib.contextmanager
def held_claims(stage: Stage, count: int) -> Iterator[HeldClaims]:
    """Have *count* allocated claims for the block, with an agent that takes so many."""
    driver = stage.driver
    with driver.first_away(flags=FLAGS):
        pass
    kubelet = connected(driver)
    with contextlib.suppress(ConflictError):
        namespace = {"kind": "Namespace", "metadata": {"name": NAMESPACE}}
        stage.client.create(paths.namespaces(), namespace)
    try:
        yield HeldClaims(claims=_allocated(stage, count), kubelet=kubelet)
    finally:
        kubelet.close()
        bulk.delete_all(stage.client, paths.resource_claims(NAMESPACE))
        driver.restart_first()


def _allocated(stage: Stage, count: int) -> list[Claim]:
    offered = devices_of(stage.client, stage.node)
    shared = [each["name"] for each in offered if each.get("allowMultipleAllocations")]
    claims: list[Claim] = []

    def make(number: int) -> None:
        result = _result(stage.node, shared[number % len(shared)])
        claims.append(_create(stage, f"claim-{number:04}", result))

    bulk.for_each(range(count), make)
    return claims


def _create(stage: Stage, name: str, result: JsonObject) -> Claim:
    request = {"name": "gpu", "exactly": {"deviceClassName": names.CLASS_SHARE}}
    body: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request]}},
    }
    stored = json.loads(stage.client.create(paths.resource_claims(NAMESPACE), body))
    stored["status"] = {"allocation": {"devices": {"results": [result]}}}
    stage.client.replace(paths.resource_claims(NAMESPACE, name, "status"), stored)
    return Claim(namespace=NAMESPACE, name=name, uid=str(stored["metadata"]["uid"]))


def _result(node: str, device: str) -> JsonObject:
    return {
        "request": "gpu",
        "driver": names.DRIVER,
        "pool": node,
        "device": device,
        "shareID": str(uuid.uuid4()),
        "consumedCapacity": {"memory": _MEMORY, "cores": "0", "shares": "1"},
    }
