"""Allocated claims as the API server gives them out, and the GPUs that they are on.

They carry what a real one carries and nobody here reads: owners, finalizers, and the fields that
three managers own.
"""

import json
import uuid
from dataclasses import dataclass
from typing import Any, Final

from gpu import names

NAMESPACE: Final = "bench"
NODE: Final = "node-a"
GPUS: Final = 8
GPU_FILE: Final = f"""node: {NODE}
gpus:
- profile: h100-80gb
  count: {GPUS}
"""
_MEMORY_MIB: Final = 1024
_CORES_PERCENT: Final = 2
_UUIDS: Final = uuid.UUID("7e2f4a4e-6a54-4b5b-9f0f-1f6f6c1d9a52")


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim; *limited* is false for one that may run without limits."""

    number: int
    limited: bool
    given_uid: str = ""
    """Where a server gave it one."""

    @property
    def name(self) -> str:
        """Return the object's name."""
        return f"{'share' if self.limited else 'free'}-{self.number}"

    @property
    def uid(self) -> str:
        """Return the object's UID."""
        return self.given_uid or str(uuid.uuid5(_UUIDS, self.name))

    def body(self, gpu_uuids: list[str]) -> bytes:
        """Return the object as it stands in an answer."""
        gpu = gpu_uuids[self.number % len(gpu_uuids)]
        return json.dumps(self._object(names.device_name(gpu)), separators=(",", ":")).encode()

    def _object(self, device: str) -> dict[str, Any]:
        request = {"name": "gpu", "exactly": _request()}
        allocation: dict[str, Any] = {
            "devices": {"results": [self._result(device)]},
            "nodeSelector": _on_node(),
            "allocationTimestamp": "2026-11-29T12:00:01Z",
        }
        if not self.limited:
            allocation["devices"]["config"] = [_without_limits()]
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": self._metadata(),
            "spec": {"devices": {"requests": [request]}},
            "status": {
                "allocation": allocation,
                "reservedFor": [{"resource": "pods", "name": f"{self.name}-pod", "uid": self.uid}],
            },
        }

    def _result(self, device: str) -> dict[str, Any]:
        return {
            "request": "gpu",
            "driver": names.DRIVER,
            "pool": NODE,
            "device": device,
            "shareID": str(uuid.uuid5(_UUIDS, f"share of {self.name}")),
            "consumedCapacity": {
                "memory": f"{_MEMORY_MIB}Mi",
                "cores": str(_CORES_PERCENT),
                "shares": "1",
            },
        }

    def _metadata(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "generateName": "share-",
            "namespace": NAMESPACE,
            "uid": self.uid,
            "resourceVersion": str(1000 + self.number),
            "creationTimestamp": "2026-11-29T12:00:00Z",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": f"{self.name}-pod",
                    "uid": self.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [_managed("kube-controller-manager"), _managed("kube-scheduler")],
        }


def _request() -> dict[str, Any]:
    return {
        "deviceClassName": names.CLASS_SHARE,
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memory": f"{_MEMORY_MIB}Mi", "cores": str(_CORES_PERCENT)}},
    }


def _on_node() -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [NODE]}]
    return {"nodeSelectorTerms": [{"matchFields": fields}]}


def _without_limits() -> dict[str, Any]:
    config = {"apiVersion": "gpuslice.io/v1alpha1", "kind": "ShareConfig", "enforcement": "none"}
    opaque = {"driver": names.DRIVER, "parameters": config}
    return {"source": "FromClaim", "requests": ["gpu"], "opaque": opaque}


def _managed(manager: str) -> dict[str, Any]:
    owned: dict[str, Any] = {
        "f:metadata": {"f:annotations": {}, "f:finalizers": {}, "f:ownerReferences": {}}
    }
    owned |= {"f:status": {"f:allocation": {"f:devices": {"f:results": {}}}, "f:reservedFor": {}}}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "resource.k8s.io/v1",
        "time": "2026-11-29T12:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": owned,
        "subresource": "status",
    }
