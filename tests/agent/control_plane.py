"""The API server, and what a scheduler would write there."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu import names
from protos import dra_v1_pb2
from tests.agent.host import NODE
from tests.fakes.api_server import ServerThread

JsonObject = dict[str, Any]

NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim as kubelet names it."""

    namespace: str
    name: str
    uid: str

    def message(self) -> dra_v1_pb2.Claim:
        """Return what kubelet sends of it."""
        return dra_v1_pb2.Claim(namespace=self.namespace, name=self.name, uid=self.uid)


def share(
    device: str, memory: str = "3000Mi", cores: str = "30", *, request: str = "gpu"
) -> JsonObject:
    """Return the result by which a share of *device* is allocated."""
    consumed = {"memory": memory, "cores": cores, "shares": "1"}
    return whole(device, request=request) | {
        "shareID": str(uuid.uuid4()),
        "consumedCapacity": consumed,
    }


def whole(device: str, *, request: str = "gpu") -> JsonObject:
    """Return the result by which *device* is allocated to one claim alone."""
    return {"request": request, "driver": names.DRIVER, "pool": NODE, "device": device}


def config(source: str = "FromClaim", **parameters: Any) -> JsonObject:
    """Return an opaque configuration for all requests."""
    typed = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", **parameters}
    return {"source": source, "opaque": {"driver": names.DRIVER, "parameters": typed}}


class ControlPlane(ServerThread):
    """A server that the agent finds by *kubeconfig*, with the agent's node."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__()
        self._kubeconfig = kubeconfig
        self._count = 0

    def start(self) -> None:
        """Listen, and write the file by which the agent finds the way here."""
        super().start()
        self.call(self.server.write_kubeconfig, self._kubeconfig)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        self.run(self.server.api.create("nodes", node))

    def claim(
        self,
        *results: JsonObject,
        name: str = "",
        configs: Sequence[JsonObject] = (),
        device_class: str = "",
    ) -> Claim:
        """Create a claim that is allocated *results*, or not at all when there are none.

        It asks for shares when the first result is one, unless *device_class* is given.
        """
        self._count += 1
        shared = any("shareID" in each for each in results[:1])
        device_class = device_class or (names.CLASS_SHARE if shared else names.CLASS_WHOLE)
        requests = dict.fromkeys(each["request"] for each in results) or {"gpu": None}
        exactly = {"deviceClassName": device_class}
        spec = {"devices": {"requests": [{"name": one, "exactly": exactly} for one in requests]}}
        metadata = {"name": name or f"claim-{self._count}", "namespace": NAMESPACE}
        body = {"metadata": metadata, "spec": spec}
        stored = self.run(self.server.api.create("resourceclaims", body))
        claim = Claim(
            namespace=NAMESPACE, name=metadata["name"], uid=str(stored["metadata"]["uid"])
        )
        if results:
            self.allocate(claim, *results, configs=configs)
        return claim

    def allocate(
        self, claim: Claim, *results: JsonObject, configs: Sequence[JsonObject] = ()
    ) -> None:
        """Give *claim* the *results* in place of what it has."""
        self.deallocate(claim)
        devices: JsonObject = {"results": list(results)}
        if configs:
            devices["config"] = list(configs)
        self._set_status(claim, {"allocation": {"devices": devices}})

    def deallocate(self, claim: Claim) -> None:
        """Take from *claim* what it has, if anything."""
        if self._get(claim).get("status"):
            self._set_status(claim, {})

    def reserve(self, claim: Claim) -> None:
        """Add a pod to the users of *claim*."""
        status = self._get(claim)["status"]
        uid = str(uuid.uuid4())
        user = {"resource": "pods", "name": f"pod-{uid}", "uid": uid}
        self._set_status(claim, {**status, "reservedFor": [*status.get("reservedFor", []), user]})

    def run_pod(self, claim: Claim) -> str:
        """Reserve *claim* for a new pod on the agent's node that uses it; return its UID."""
        entry = {"name": "gpu", "resourceClaimName": claim.name}
        container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
        spec = {"nodeName": NODE, "resourceClaims": [entry], "containers": [container]}
        name = f"pod-of-{claim.name}"
        pod = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
        stored = self.run(self.server.api.create("pods", pod))
        uid = str(stored["metadata"]["uid"])
        status = self._get(claim)["status"]
        user = {"resource": "pods", "name": name, "uid": uid}
        self._set_status(claim, {**status, "reservedFor": [*status.get("reservedFor", []), user]})
        return uid

    def delete(self, claim: Claim) -> None:
        """Delete *claim*, whoever uses it."""
        self.run(self.server.api.delete("resourceclaims", claim.name, claim.namespace))

    def _get(self, claim: Claim) -> JsonObject:
        return self.run(self.server.api.get("resourceclaims", claim.name, claim.namespace))

    def _set_status(self, claim: Claim, status: JsonObject) -> None:
        body = {**self._get(claim), "status": status}
        self.run(self.server.api.update("resourceclaims", body, subresource="status"))

    def ready_conditions(self, claim: Claim) -> list[str]:
        """Return the status of each condition of *claim*'s devices."""
        devices = self._get(claim)["status"].get("devices", ())
        return [each["status"] for device in devices for each in device["conditions"]]

    def event_reasons(self, kind: str) -> set[str]:
        """Return the reasons of the Events about objects of *kind*."""
        events = self.run(self.server.api.list("events"))[0]
        return {each["reason"] for each in events if each["involvedObject"]["kind"] == kind}

    def add_slice(self, like: JsonObject, name: str) -> None:
        """Create a ResourceSlice of the same pool with the devices of another one."""
        body = {"metadata": {"name": name}, "spec": like["spec"]}
        self.run(self.server.api.create("resourceslices", body))

    def delete_slice(self, item: JsonObject) -> None:
        """Delete a ResourceSlice."""
        self.run(self.server.api.delete("resourceslices", item["metadata"]["name"]))

    def slices(self) -> list[JsonObject]:
        """Return the ResourceSlices."""
        return self.run(self.server.api.list("resourceslices"))[0]
