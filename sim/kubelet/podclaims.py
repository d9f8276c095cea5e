"""Which claims a pod has, and which devices of them a container asked for.

Names come from the pod's spec, or for generated claims from `status.resourceClaimStatuses`, or
for extended resources from `status.extendedResourceClaimStatus` (kubelet: `cm/dra/manager.go`).
"""

from collections.abc import Iterator
from typing import Final

from kube.objects import JsonObject
from sim.kubelet.claiminfo import ClaimInfo
from sim.kubelet.errors import ClaimError

_ALL: Final = {"*", "NodePrepareResources", "NodeUnprepareResources"}


def claim_names(pod: JsonObject) -> Iterator[tuple[str, bool]]:
    """Yield (claim name, whether it must be owned by the pod); raise `ClaimError`."""
    for entry in pod["spec"].get("resourceClaims", []):
        name = claim_name(pod, entry)
        if name is not None:
            yield name, "resourceClaimName" not in entry
    extended = pod.get("status", {}).get("extendedResourceClaimStatus")
    if extended:
        yield extended["resourceClaimName"], False


def claim_name(pod: JsonObject, entry: JsonObject) -> str | None:
    """Return the name behind a claim *entry* of *pod*; `None` where no claim was needed."""
    if "resourceClaimName" in entry:
        return str(entry["resourceClaimName"])
    for status in pod.get("status", {}).get("resourceClaimStatuses", []):
        if status["name"] == entry["name"]:
            name: str | None = status.get("resourceClaimName")
            return name
    message = f"pod claim {entry['name']}: ResourceClaim not created yet"
    raise ClaimError(message)


def check_usable(claim: JsonObject, pod: JsonObject, *, owned: bool) -> None:
    """Check that *pod* may use *claim* now; raise `ClaimError`."""
    meta, pod_uid = claim["metadata"], pod["metadata"]["uid"]
    owners = meta.get("ownerReferences", [])
    if owned and not any(owner["uid"] == pod_uid for owner in owners):
        message = f"ResourceClaim {meta['name']} is not owned by pod {pod['metadata']['name']}"
        raise ClaimError(message)
    status = claim.get("status", {})
    if not any(one["uid"] == pod_uid for one in status.get("reservedFor", [])):
        message = (
            f"pod {pod['metadata']['name']} is not allowed to use ResourceClaim {meta['name']}"
        )
        raise ClaimError(message)
    if "allocation" not in status:
        message = f"ResourceClaim {meta['name']} is not allocated"
        raise ClaimError(message)


def drivers_of(claim: JsonObject) -> list[str]:
    """Return the drivers that have a part in *claim*, each once."""
    results = claim["status"]["allocation"].get("devices", {}).get("results", [])
    return list(dict.fromkeys(result["driver"] for result in results))


def check_node_operations(claim: JsonObject) -> None:
    """Refuse a claim one of whose drivers need not be called: the gate for that is off."""
    skipped: dict[str, list[set[str]]] = {}
    for result in claim["status"]["allocation"].get("devices", {}).get("results", []):
        skipped.setdefault(result["driver"], []).append(set(result.get("skipNodeOperations", [])))
    for of_devices in skipped.values():
        every = [_ALL if "*" in operations else operations for operations in of_devices]
        if set.intersection(*every):
            message = (
                f"ResourceClaim {claim['metadata']['name']}: "
                "DRAOptionalNodeOperations feature gate is disabled on kubelet"
            )
            raise ClaimError(message)


def wanted(pod: JsonObject, container: JsonObject) -> dict[str, list[str]]:
    """Return what *container* uses: requests by claim name, an empty request meaning all."""
    found: dict[str, list[str]] = {}
    uses = container.get("resources", {}).get("claims", [])
    for entry in pod["spec"].get("resourceClaims", []):
        requests = [use.get("request", "") for use in uses if use["name"] == entry["name"]]
        name = claim_name(pod, entry) if requests else None
        if name is not None:
            found.setdefault(name, []).extend(requests)
    extended = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
    resources = container.get("resources", {}).get("requests", {})
    for mapping in extended.get("requestMappings", []):
        asked = str(resources.get(mapping["resourceName"], "0")) != "0"
        if mapping["containerName"] == container["name"] and asked:
            name = extended["resourceClaimName"]
            found.setdefault(name, []).append(mapping["requestName"])
    return found


def cdi_names(info: ClaimInfo, driver: str, request: str) -> Iterator[str]:
    """Yield the CDI names of *info*'s devices of *driver* that serve *request*."""
    for device in info.drivers[driver]:
        if not request or not device.request_names or request in device.request_names:
            yield from device.cdi_device_ids
