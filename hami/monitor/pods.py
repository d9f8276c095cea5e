"""What the monitor knows of a pod of its node: who it is, and which of its containers run.

A pod stays in the API after it has ended, and a container of a running pod may wait to be started
again; neither uses a GPU. Which claim a container uses stands in its spec, and for a claim that the
scheduler made of an extended resource in the status (resource/v1, `extendedResourceClaimStatus`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kube.events import Regarding
from kube.objects import JsonObject

_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUse:
    """A claim that a container uses; *request* is `None` for all of the claim's devices."""

    claim: str
    request: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContainer:
    """A container of a pod."""

    name: str
    running: bool
    claims: tuple[ClaimUse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePod:
    """A pod of this node."""

    uid: str
    namespace: str
    name: str
    containers: tuple[NodeContainer, ...]
    """Init containers first, as HAMi's annotations count them."""
    annotations: dict[str, str] = field(default_factory=dict)
    has_ended: bool = False
    """Whether none of its containers will run again."""

    def reference(self) -> Regarding:
        """Return what an event about this pod names."""
        return Regarding(
            api_version="v1", kind="Pod", name=self.name, uid=self.uid, namespace=self.namespace
        )


def read_node_pod(raw: JsonObject) -> NodePod:
    """Return what the monitor needs of a pod, as the API server tells it."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    running = frozenset(_running(status))
    claims = _claim_names(spec, status)
    extended = _extended(status)
    return NodePod(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        containers=tuple(
            NodeContainer(
                name=each["name"],
                running=each["name"] in running,
                claims=(*_uses(each, claims), *extended.get(each["name"], ())),
            )
            for key in ("initContainers", "containers")
            for each in spec.get(key) or ()
        ),
        annotations=metadata.get("annotations") or {},
        has_ended=status.get("phase") in _ENDED,
    )


def _running(status: JsonObject) -> Iterator[str]:
    if status.get("phase") in _ENDED:
        return
    for key in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(key) or ():
            if "running" in (each.get("state") or {}):
                yield each["name"]


def _claim_names(spec: JsonObject, status: JsonObject) -> dict[str, str]:
    """Map the entries of a pod's list of claims to the claims that exist for them."""
    found: dict[str, str] = {}
    for each in (*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())):
        name = each.get("resourceClaimName")
        if name:
            found[each["name"]] = name
    return found


def _uses(container: JsonObject, claims: dict[str, str]) -> Iterator[ClaimUse]:
    for each in (container.get("resources") or {}).get("claims") or ():
        if each["name"] in claims:
            yield ClaimUse(claim=claims[each["name"]], request=each.get("request"))


def _extended(status: JsonObject) -> dict[str, list[ClaimUse]]:
    made: dict[str, Any] = status.get("extendedResourceClaimStatus") or {}
    found: dict[str, list[ClaimUse]] = {}
    for each in made.get("requestMappings") or ():
        use = ClaimUse(claim=made["resourceClaimName"], request=each["requestName"])
        found.setdefault(each["containerName"], []).append(use)
    return found
