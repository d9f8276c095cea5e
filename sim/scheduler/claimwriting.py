"""Write down what a pod was given: finalizer, allocation and reservation of its claims."""

from typing import Final

import structlog

from kube.objects import JsonObject, key_of
from sim.apiserver.api import STRATEGIC_PATCH, Api
from sim.apiserver.json_values import timestamp
from sim.scheduler.extended import Extended
from sim.scheduler.mirror import Mirror
from sim.scheduler.placement import Placed
from sim.scheduler.podclaims import reserves

log = structlog.get_logger(__name__)

FINALIZER: Final = "resource.kubernetes.io/delete-protection"


class ClaimWriting:
    """Writes claims and puts them into *claims* at once."""

    def __init__(self, api: Api, claims: Mirror) -> None:
        self._api = api
        self._claims = claims

    async def allocate(self, pod: JsonObject, placed: Placed) -> None:
        """Give *pod* what *placed* says, in claims that are there or made for it."""
        pending = list(placed.claims.pending)
        if placed.extended:
            pending.append(await self._make(placed.extended, pod))
        for claim, allocation in zip(pending, placed.allocations, strict=True):
            await self._reserve(claim, pod, allocation)
        for claim in placed.claims.allocated:
            if not reserves(claim, pod):
                await self._reserve(claim, pod, None)

    async def _make(self, extended: Extended, pod: JsonObject) -> JsonObject:
        """Make the claim for extended resources, and note it in the pod for its kubelet."""
        metadata = {key: it for key, it in extended.claim["metadata"].items() if key != "name"}
        claim = await self._api.create("resourceclaims", {**extended.claim, "metadata": metadata})
        self._claims.put(claim)
        status = {
            "resourceClaimName": claim["metadata"]["name"],
            "requestMappings": list(extended.mappings),
        }
        key = key_of(pod)
        await self._api.patch(
            "pods",
            key.name,
            {"status": {"extendedResourceClaimStatus": status}},
            namespace=key.namespace,
            content_type=STRATEGIC_PATCH,
            subresource="status",
        )
        return claim

    async def _reserve(
        self, claim: JsonObject, pod: JsonObject, allocation: JsonObject | None
    ) -> None:
        if FINALIZER not in (claim["metadata"].get("finalizers") or ()):
            finalizers = [*(claim["metadata"].get("finalizers") or ()), FINALIZER]
            metadata = {**claim["metadata"], "finalizers": finalizers}
            claim = await self._api.update("resourceclaims", {**claim, "metadata": metadata})
            self._claims.put(claim)
        status = dict(claim.get("status") or {})
        if allocation is not None:
            status["allocation"] = {**allocation, "allocationTimestamp": timestamp()}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), _reference(pod)]
        await self._write_status({**claim, "status": status})

    async def deallocate(self, claim: JsonObject) -> None:
        """Free a claim that nobody uses, so that it can be allocated where the pod can run."""
        log.info("claim deallocated", claim=str(key_of(claim)))
        kept = {key: value for key, value in claim["status"].items() if key != "allocation"}
        await self._write_status({**claim, "status": kept})

    async def _write_status(self, claim: JsonObject) -> None:
        self._claims.put(await self._api.update("resourceclaims", claim, subresource="status"))


def _reference(pod: JsonObject) -> JsonObject:
    metadata = pod["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
