"""Set the objects of a case on a real control plane, let its scheduler work, and clear up.

No kubelet takes part: nodes are objects, and pods end with their deletion. What a scheduler knows
comes through watches that lag behind, and nothing says by how much; a case is therefore given time
before its pod comes, and played again (see `player`).
"""

import contextlib
import copy
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kube import paths
from kube.client import JSON_PATCH, MERGE_PATCH, Client
from kube.errors import ApiError, ConflictError, NotFoundError
from tests.cluster.vectors.answers import Answer, rejected
from tests.cluster.virtual_nodes import node_object, status_of
from tests.sim.scheduler.vector import Json, Vector

PATIENCE_S: Final = 30.0
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""What a scheduler puts on a claim before it allocates."""
_PAUSE_S: Final = 0.02
_NOW: Final = "2026-01-01T00:00:00Z"
_LABEL: Final = "gpuslice.test/vector"
_NAMESPACES: Final = {"default": "vectors", "plain": "vectors-plain"}
"""Cases speak of `default`, which may use admin access, and of `plain`, which may not."""
_ADMIN: Final = "resource.kubernetes.io/admin-access"
_EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"


class RejectedError(Exception):
    """The API server does not take an object."""

    def __init__(self, item: Json, error: ApiError) -> None:
        what = f"{item['kind']} {item['metadata'].get('name', '')}"
        super().__init__(f"{what}: {error}")
        self.answer: Answer = rejected(what, error)


class Stage:
    """The part of a cluster that cases are played on; one at a time."""

    def __init__(self, client: Client, minor: str) -> None:
        self._client = client
        self._rules = (
            f"/apis/resource.k8s.io/{'v1beta2' if minor == '1.36' else 'v1'}/devicetaintrules"
        )
        self._minor = minor

    def prepare(self) -> None:
        """Make the namespaces, with what pods need in them."""
        for case, name in _NAMESPACES.items():
            labels = {_ADMIN: "true"} if case == "default" else {}
            self._ensure(paths.namespaces(), "Namespace", {"name": name, "labels": labels})
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
            self._ensure(accounts, "ServiceAccount", {"name": "default"})

    def furnish(self, vector: Vector) -> None:
        """Make all that is there before the pod; raises `RejectedError`."""
        for node in vector.nodes:
            self._set_node(node)
        for item in vector.classes:
            self._create(paths.device_classes(), item)
        for item in vector.slices:
            self._create(paths.resource_slices(), item)
        for item in vector.rules:
            version = "v1beta2" if self._minor == "1.36" else "v1"
            self._create(self._rules, {**item, "apiVersion": f"resource.k8s.io/{version}"})
        for item in vector.held():
            self._set_claim(item)

    def enter(self, vector: Vector) -> None:
        """Make the pod's claims and then the pod; raises `RejectedError`."""
        for item in vector.claims:
            self._set_claim(item)
        pod = _moved(vector.pod())
        del pod["metadata"]["uid"]
        pod["spec"] = {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            **pod["spec"],
            "nodeSelector": {_LABEL: "", **(pod["spec"].get("nodeSelector") or {})},
        }
        self._create(paths.pods(pod["metadata"]["namespace"]), pod)

    def pod(self, vector: Vector) -> Json:
        """Return the pod as it is now."""
        namespace = _NAMESPACES[vector.namespace]
        return self._get(paths.pods(namespace, vector.pod()["metadata"]["name"]))

    def allocations(self, vector: Vector) -> list[Json | None]:
        """Return the allocations of the claims that had none; an extended resource's is last."""
        listed = self._claims(_NAMESPACES[vector.namespace])
        by_name = {claim["metadata"]["name"]: claim for claim in listed}
        pending = [item for item in vector.claims if "status" not in item]
        claims = [by_name[item["metadata"]["name"]] for item in pending]
        claims += [it for it in listed if _EXTENDED in (it["metadata"].get("annotations") or {})]
        return [(claim.get("status") or {}).get("allocation") for claim in claims]

    def leave(self, vector: Vector) -> None:
        """Take pod and claims away, but for what others hold."""
        self._clear_claims(_NAMESPACES[vector.namespace], keep={"held"})

    def clear(self) -> None:
        """Take everything away."""
        for namespace in _NAMESPACES.values():
            self._clear_claims(namespace, keep=set())
        for path in (paths.resource_slices, paths.device_classes, paths.nodes):
            for item in self._own(path()):
                self._client.delete(path(item["metadata"]["name"]))
        with contextlib.suppress(NotFoundError):
            for item in self._own(self._rules):
                self._client.delete(f"{self._rules}/{item['metadata']['name']}")

    def _set_node(self, node: Json) -> None:
        metadata, own = node["metadata"], node.get("status") or {}
        made = node_object(metadata["name"])
        made["metadata"]["labels"] |= metadata.get("labels") or {}
        status = status_of(metadata["name"], "10.99.0.250", _NOW, _NOW)["status"]
        for kind in ("capacity", "allocatable"):
            status[kind] = {**status[kind], **(own.get("allocatable") or {})}
        self._create(paths.nodes(), {**made, "status": status})
        # Admission taints a node that is new, and no controller is there to take that back.
        taints = [{"op": "replace", "path": "/spec", "value": node.get("spec") or {}}]
        path = paths.nodes(metadata["name"])
        self._client.patch(path, taints, content_type=JSON_PATCH)

    def _set_claim(self, item: Json) -> None:
        claim = _moved(item)
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        status = claim.pop("status", None)
        if status is not None:
            claim["metadata"]["finalizers"] = [FINALIZER]
            # A scheduler that adds a reservation would add the time too, which nobody may.
            status["allocation"].setdefault("allocationTimestamp", _NOW)
        stored = self._create(paths.resource_claims(namespace), claim)
        if status is not None:
            stored["status"] = status
            path = paths.resource_claims(namespace, name, "status")
            try:
                self._client.replace(path, stored)
            except ApiError as error:
                raise RejectedError(claim, error) from error

    def _clear_claims(self, namespace: str, keep: set[str]) -> None:
        self._client.delete(paths.pods(namespace))
        for _ in _until(time.monotonic() + PATIENCE_S):
            left = [
                claim for claim in self._claims(namespace) if claim["metadata"]["name"] not in keep
            ]
            if not left and not self._list(paths.pods(namespace)):
                return
            for claim in left:
                self._drop(namespace, claim)
        message = f"claims or pods in {namespace} do not go"
        raise AssertionError(message)

    def _drop(self, namespace: str, claim: Json) -> None:
        path = paths.resource_claims(namespace, claim["metadata"]["name"])
        try:
            self._client.delete(path)
            if claim["metadata"].get("finalizers"):
                freed = {"metadata": {"finalizers": None}}
                self._client.patch(path, freed, content_type=MERGE_PATCH)
        except NotFoundError:
            return

    def _claims(self, namespace: str) -> list[Json]:
        return self._list(paths.resource_claims(namespace))

    def _own(self, path: str) -> list[Json]:
        found: Json = json.loads(self._client.get(path, {"labelSelector": _LABEL}))
        return list(found["items"])

    def _create(self, path: str, item: Json) -> Json:
        metadata = item["metadata"]
        labelled = {**metadata, "labels": {**(metadata.get("labels") or {}), _LABEL: ""}}
        try:
            made: Json = json.loads(self._client.create(path, {**item, "metadata": labelled}))
        except ApiError as error:
            raise RejectedError(item, error) from error
        return made

    def _ensure(self, path: str, kind: str, metadata: Json) -> None:
        try:
            self._client.create(path, {"apiVersion": "v1", "kind": kind, "metadata": metadata})
        except ConflictError:
            return

    def _list(self, path: str) -> list[Json]:
        return list(self._get(path)["items"])

    def _get(self, path: str) -> Json:
        found: dict[str, Any] = json.loads(self._client.get(path))
        return found


def _until(deadline_s: float) -> Iterable[int]:
    """Count until *deadline_s*, with a pause after each."""
    return _ticks(deadline_s)


def _ticks(deadline_s: float) -> Iterator[int]:
    count = 0
    while time.monotonic() < deadline_s:
        yield count
        count += 1
        time.sleep(_PAUSE_S)


def _moved(item: Json) -> Json:
    copied = copy.deepcopy(item)
    copied["metadata"]["namespace"] = _NAMESPACES[copied["metadata"]["namespace"]]
    return copied
