"""Objects that a server accepts and that nothing in a cluster acts upon."""

from typing import Any

from tests.api_behaviour.server import JsonObject


def pod(name: str, **spec: Any) -> JsonObject:
    """Return a pod that no scheduler looks at, without a token."""
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "image:1"}],
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            **spec,
        },
    }


def device(name: str = "gpu-0", **more: Any) -> JsonObject:
    """Return a device of one attribute."""
    return {"name": name, "attributes": {"model": {"string": "T4"}}, **more}


def resource_slice(name: str, node: str = "node-x", **spec: Any) -> JsonObject:
    """Return a slice of a driver of its own."""
    namespace = "-".join(name.split("-")[:2])
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    told = {"driver": f"{namespace}.example.com", "nodeName": node, "pool": pool}
    return {"metadata": {"name": name}, "spec": {**told, "devices": [device()], **spec}}


def request(name: str = "gpu", **exactly: Any) -> JsonObject:
    """Return a request for devices of a class."""
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **exactly}}


def claim(name: str = "claim", *requests: JsonObject, **devices: Any) -> JsonObject:
    """Return a claim of these *requests*, or of one."""
    told = {"requests": list(requests) or [request()], **devices}
    return {"metadata": {"name": name}, "spec": {"devices": told}}


def result(**more: Any) -> JsonObject:
    """Return the allocation of one device."""
    told = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-x", "device": "gpu-0"}
    return {**told, **more}


def allocated(claim_: JsonObject, *results: JsonObject, **status: Any) -> JsonObject:
    """Return *claim_* with an allocation."""
    found = {"devices": {"results": list(results) or [result()]}}
    return {**claim_, "status": {"allocation": found, **status}}
