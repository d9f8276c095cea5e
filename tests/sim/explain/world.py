"""Objects of small clusters, in the shape in which an API server gives them out."""

from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from kube.objects import ObjectKey
from sim.explain.explainer import explain_claim, explain_pod
from sim.explain.model import Explanation
from sim.explain.rules import Rules
from sim.explain.snapshot import Snapshot, snapshot_of

Json = dict[str, Any]
DRIVER = "gpu.example.com"
NAMESPACE = "default"
POD = "trainer"
CLAIM = "want"
RULES = Rules(release="1.37")
SHARED = f'device.driver == "{DRIVER}"'


def node(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    """Return a node."""
    metadata = {"name": name, "labels": labels or {}}
    status = {"nodeInfo": {"kubeletVersion": "v1.37.1"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec} | {
        "status": status
    }


def gpu(name: str, *, memory: str = "40Gi", shares: int = 10, **device: Any) -> Json:
    """Return a GPU that can be shared."""
    amounts = {"default": memory, "validRange": {"min": "1Mi", "step": "1Mi"}}
    cores = {"default": "0", "validRange": {"min": "0", "step": "1"}}
    one = {"default": "1", "validValues": ["1"]}
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": {"model": {"string": "a10"}, "numa": {"int": 0}},
        "capacity": {
            "memory": {"value": memory, "requestPolicy": amounts},
            "cores": {"value": "100", "requestPolicy": cores},
            "shares": {"value": str(shares), "requestPolicy": one},
        },
        **device,
    }


def whole(name: str, **device: Any) -> Json:
    """Return a GPU that is given whole."""
    return {"name": name, "attributes": {"model": {"string": "l4"}}, **device}


def published(node_name: str, *devices: Json, pool: Json | None = None, **spec: Any) -> Json:
    """Return the slice of a node."""
    whole_pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1, **(pool or {})}
    body = {"driver": DRIVER, "nodeName": node_name, "pool": whole_pool, "devices": [*devices]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-slice"},
        "spec": body | spec,
    }


def device_class(name: str = "share", *expressions: str, **spec: Any) -> Json:
    """Return a class; without expressions it is for all devices of the driver."""
    selectors = [{"cel": {"expression": text}} for text in expressions or (SHARED,)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def asking(name: str = "gpu", *, of: str = "share", capacity: Any = None, **exactly: Any) -> Json:
    """Return a request; *capacity* has amounts by name."""
    body = {"deviceClassName": of, **exactly}
    if capacity:
        body["capacity"] = {"requests": capacity}
    return {"name": name, "exactly": body}


def selecting(*expressions: str) -> list[Json]:
    """Return selectors."""
    return [{"cel": {"expression": text}} for text in expressions]


def claim(*requests: Json, name: str = CLAIM, constraints: Any = (), **metadata: Any) -> Json:
    """Return a claim that has no devices."""
    devices: Json = {"requests": [*requests] or [asking()]}
    if constraints:
        devices["constraints"] = [*constraints]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, **metadata},
        "spec": {"devices": devices},
    }


def holding(
    name: str, node_name: str, device: str, *, capacity: Any = None, pods: tuple[str, ...] = ()
) -> Json:
    """Return a claim that has a device: whole, or what *capacity* says of it."""
    result: Json = {"request": "gpu", "driver": DRIVER, "pool": node_name, "device": device}
    if capacity:
        result |= {"shareID": str(uuid5(NAMESPACE_DNS, name)), "consumedCapacity": capacity}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": pod} for pod in pods],
    }
    return {**claim(name=name), "status": status}


def pod(*claims: str, **spec: Any) -> Json:
    """Return the pod that is explained; without names it uses the claim `want`."""
    entries = [{"name": it, "resourceClaimName": it} for it in claims or (CLAIM,)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD, "namespace": NAMESPACE, "uid": POD},
        "spec": {"containers": [], "resourceClaims": entries, **spec},
    }


def snapshot(*items: Json) -> Snapshot:
    """Return a cluster with *items*, and the class `share` unless they have a class."""
    known = any(item.get("kind") == "DeviceClass" for item in items)
    return snapshot_of([*items, *([] if known else [device_class()])])


def explained(*items: Json, release: str = "1.37", **gates: bool) -> Explanation:
    """Explain the pod in a cluster with *items*."""
    rules = Rules(release=release, gates=gates)
    return explain_pod(snapshot(*items), ObjectKey(NAMESPACE, POD), rules=rules)


def claim_explained(name: str, *items: Json) -> Explanation:
    """Explain a claim in a cluster with *items*."""
    return explain_claim(snapshot(*items), ObjectKey(NAMESPACE, name), rules=RULES)


def device_codes(said: Explanation) -> list[str]:
    """Return the codes of all device reasons, in order."""
    return [device.refusal.code for node in said.nodes for device in node.devices]


def node_codes(said: Explanation) -> dict[str, str]:
    """Return the code of each node."""
    return {node.node: node.refusal.code for node in said.nodes}


def change_codes(said: Explanation) -> list[str]:
    """Return the codes of the changes, in order."""
    return [change.code for change in said.changes]
