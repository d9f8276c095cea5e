"""Giving back: reservations of pods that are done, allocations, finalizers, generated claims.

Facts: kubernetes pkg/controller/resourceclaim/controller.go, `syncClaim`. A claim is deallocated
when its last reservation goes, whoever made the claim; one that was never reserved stays
allocated until it is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.controllers.lookup import find
from sim.controllers.podclaims import is_terminal, owning_pod

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.apiserver.api import Api

FINALIZER = "resource.kubernetes.io/delete-protection"


async def sync_claim(api: Api, namespace: str, name: str) -> None:
    """Bring one claim to what its consumers still need."""
    claim = await find(api, "resourceclaims", namespace, name)
    if claim is None:
        return
    consumers = claim.get("status", {}).get("reservedFor", [])
    valid = [consumer for consumer in consumers if await _needs(api, namespace, consumer)]
    protected = FINALIZER in claim["metadata"].get("finalizers", ())
    if len(valid) < len(consumers):
        claim["status"]["reservedFor"] = valid
        if not valid and protected:
            del claim["status"]["reservedFor"]
            claim["status"].pop("allocation", None)
        claim = await api.update("resourceclaims", claim, subresource="status")
        if protected and "allocation" not in claim.get("status", {}):
            claim = await _unprotected(api, claim)
    elif protected and not valid and claim["metadata"].get("deletionTimestamp"):
        if claim.get("status", {}).pop("allocation", None) is not None:
            claim = await api.update("resourceclaims", claim, subresource="status")
        claim = await _unprotected(api, claim)
    if not valid:
        await _delete_if_generated_in_vain(api, claim)


async def _needs(api: Api, namespace: str, consumer: JsonObject) -> bool:
    if (consumer.get("apiGroup", ""), consumer["resource"]) != ("", "pods"):
        return True
    pod = await find(api, "pods", namespace, consumer["name"])
    return pod is not None and pod["metadata"]["uid"] == consumer["uid"] and not is_terminal(pod)


async def _unprotected(api: Api, claim: JsonObject) -> JsonObject:
    """Remove the finalizer, which lets a claim in deletion go."""
    finalizers = [name for name in claim["metadata"]["finalizers"] if name != FINALIZER]
    metadata = {**claim["metadata"], "finalizers": finalizers}
    return await api.update("resourceclaims", {**claim, "metadata": metadata})


async def _delete_if_generated_in_vain(api: Api, claim: JsonObject) -> None:
    """Delete a generated claim whose pod is done; a pod that is gone is the collector's case."""
    owner = owning_pod(claim)
    metadata = claim["metadata"]
    if owner is None or metadata.get("deletionTimestamp"):
        return
    pod = await find(api, "pods", metadata["namespace"], owner[0])
    if pod is not None and (pod["metadata"]["uid"] != owner[1] or is_terminal(pod)):
        await api.delete(
            "resourceclaims", metadata["name"], metadata["namespace"], uid=metadata["uid"]
        )
