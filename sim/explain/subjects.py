"""Find the pod to be placed: the one that is asked about, or the one that uses a claim.

A scheduler allocates a claim only for a pod, so a claim is explained with its pod; for one that
no pod uses an imaginary pod stands, which could run anywhere.
"""

from typing import NamedTuple

from kube.objects import JsonObject, ObjectKey
from sim.explain.errors import OtherProtocolError, SubjectNotFoundError
from sim.explain.snapshot import Snapshot
from sim.scheduler.nodefilter import finished

_LEGACY = "nvidia.com/"


class Placing(NamedTuple):
    """The pod to place, and what is to be said about the choice."""

    pod: JsonObject
    note: str = ""


def pod_of(snapshot: Snapshot, key: ObjectKey) -> JsonObject:
    """Return the pod *key*; raises `SubjectNotFoundError`."""
    pod = snapshot.pods.get(key)
    if pod is None:
        msg = f"there is no pod {key}"
        raise SubjectNotFoundError(msg)
    return pod


def claim_of(snapshot: Snapshot, key: ObjectKey) -> JsonObject:
    """Return the claim *key*; raises `SubjectNotFoundError`."""
    claim = snapshot.claims.get(key)
    if claim is None:
        msg = f"there is no claim {key}"
        raise SubjectNotFoundError(msg)
    return claim


def placing_of(snapshot: Snapshot, claim: JsonObject) -> Placing:
    """Choose the pod with which *claim* is explained."""
    key = ObjectKey(claim["metadata"]["namespace"], claim["metadata"]["name"])
    users = [pod for pod in snapshot.pods.values() if _uses(pod, key) and not finished(pod)]
    waiting = [pod for pod in users if not pod["spec"].get("nodeName")]
    if waiting:
        name = waiting[0]["metadata"]["name"]
        more = f"; {len(waiting) - 1} more pods use it" if len(waiting) > 1 else ""
        return Placing(waiting[0], f"explained with pod {name}, which uses it{more}")
    return Placing(
        _imaginary(key),
        "no waiting pod uses the claim: it is explained for a pod that could run on any node",
    )


def check_protocol(pod: JsonObject, snapshot: Snapshot) -> None:
    """Refuse pods whose devices are not allocated by claims; raises `OtherProtocolError`."""
    if pod["spec"].get("resourceClaims"):
        return
    offered = {
        str((item.get("spec") or {}).get("extendedResourceName")) for item in _classes(snapshot)
    }
    legacy = sorted(
        name for name in _resources(pod) if name.startswith(_LEGACY) and name not in offered
    )
    if legacy:
        msg = (
            f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} asks for "
            f"{', '.join(legacy)} and has no claim: the annotation protocol or a device plugin "
            "decides about it, and that is not explained yet"
        )
        raise OtherProtocolError(msg)


def _classes(snapshot: Snapshot) -> list[JsonObject]:
    return list(snapshot.classes.values())


def _resources(pod: JsonObject) -> set[str]:
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return {
        str(name)
        for container in containers
        for kind in ("limits", "requests")
        for name in ((container.get("resources") or {}).get(kind) or {})
    }


def _uses(pod: JsonObject, claim: ObjectKey) -> bool:
    if pod["metadata"].get("namespace") != claim.namespace:
        return False
    named = {entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or ()}
    status = pod.get("status") or {}
    made = {it.get("resourceClaimName") for it in status.get("resourceClaimStatuses") or ()}
    return claim.name in named | made


def _imaginary(claim: ObjectKey) -> JsonObject:
    entry = {"name": claim.name, "resourceClaimName": claim.name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": claim.name,
            "namespace": claim.namespace,
            "uid": "imaginary",
        },
        "spec": {"containers": [], "resourceClaims": [entry]},
    }
