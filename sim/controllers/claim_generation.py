"""Claims for pods that name a template, and reservations for pods that have a node already.

Facts: kubernetes pkg/controller/resourceclaim/controller.go, `syncPod`. A pod is accepted before
its template exists and waits for it; the claim is then owned by the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.api import STRATEGIC_PATCH
from sim.apiserver.errors import StatusError
from sim.controllers.lookup import find
from sim.controllers.podclaims import claim_names, is_terminal, owning_pod
from sim.controllers.warning import warn

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.apiserver.api import Api

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"

_NAME_BASE_MAX = 57
_CONSUMERS_MAX = 256


async def sync_pod(api: Api, namespace: str, name: str) -> None:
    """Generate what the pod lacks, tell it the names, and reserve what is allocated."""
    pod = await find(api, "pods", namespace, name)
    if pod is None or pod["metadata"].get("deletionTimestamp") or is_terminal(pod):
        return
    names = claim_names(pod)
    made: dict[str, str] = {}
    for entry in pod["spec"].get("resourceClaims", ()):
        template = entry.get("resourceClaimTemplateName")
        if template is None or await _has_claim(api, pod, names[entry["name"]]):
            continue
        claim = await _find_orphan(api, pod, entry["name"])
        if claim is None:
            claim = await _generate(api, pod, entry["name"], template)
        if claim is not None:
            made[entry["name"]] = claim["metadata"]["name"]
    if made:
        statuses = [
            {"name": entry, "resourceClaimName": claim_name} for entry, claim_name in made.items()
        ]
        await api.patch(
            "pods",
            name,
            {
                "metadata": {"uid": pod["metadata"]["uid"]},
                "status": {"resourceClaimStatuses": statuses},
            },
            namespace=namespace,
            content_type=STRATEGIC_PATCH,
            subresource="status",
        )
    if pod["spec"].get("nodeName"):
        await _reserve(api, pod, {**names, **made})


async def _has_claim(api: Api, pod: JsonObject, name: str | None) -> bool:
    if name is None:
        return False
    claim = await find(api, "resourceclaims", pod["metadata"]["namespace"], name)
    return claim is not None and _is_for(claim, pod)


def _is_for(claim: JsonObject, pod: JsonObject) -> bool:
    return owning_pod(claim) == (pod["metadata"]["name"], pod["metadata"]["uid"])


async def _find_orphan(api: Api, pod: JsonObject, entry: str) -> JsonObject | None:
    """Return a claim that was made for the pod but not yet written into its status."""
    claims, _ = await api.list("resourceclaims", pod["metadata"]["namespace"])
    for claim in claims:
        annotations = claim["metadata"].get("annotations", {})
        if _is_for(claim, pod) and annotations.get(POD_CLAIM_ANNOTATION) == entry:
            return claim
    return None


async def _generate(api: Api, pod: JsonObject, entry: str, template_name: str) -> JsonObject | None:
    """Create the claim of one entry; None while the template is missing."""
    namespace, pod_name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    template = await find(api, "resourceclaimtemplates", namespace, template_name)
    if template is None:
        message = f'PodResourceClaim {entry}: resource claim template "{template_name}": not found'
        await warn(api, pod, "FailedResourceClaimCreation", message)
        return None
    metadata = template["spec"].get("metadata", {})
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod_name,
        "uid": pod["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    claim: JsonObject = {
        "metadata": {
            "generateName": _name_base(pod_name, entry),
            "annotations": {**metadata.get("annotations", {}), POD_CLAIM_ANNOTATION: entry},
            "labels": metadata.get("labels", {}),
            "ownerReferences": [owner],
        },
        "spec": template["spec"]["spec"],
    }
    try:
        return await api.create("resourceclaims", claim, namespace)
    except StatusError as error:
        message = f"PodResourceClaim {entry}: create ResourceClaim : {error.message}"
        await warn(api, pod, "FailedResourceClaimCreation", message)
        raise


def _name_base(pod: str, entry: str) -> str:
    """Return `<pod>-<entry>-`, both cut in proportion when that is too long."""
    full = f"{pod}-{entry}-"
    if len(full) <= _NAME_BASE_MAX:
        return full
    cut_pod = pod[: len(pod) * _NAME_BASE_MAX // len(full)]
    cut_entry = entry[: len(entry) * _NAME_BASE_MAX // len(full)]
    return f"{cut_pod}-{cut_entry}-"


async def _reserve(api: Api, pod: JsonObject, names: dict[str, str | None]) -> None:
    """Reserve allocated claims for a pod that was bound without the scheduler."""
    uid = pod["metadata"]["uid"]
    for name in names.values():
        claim = name and await find(api, "resourceclaims", pod["metadata"]["namespace"], name)
        if not claim or claim.get("status", {}).get("allocation") is None:
            continue
        consumers = claim["status"].setdefault("reservedFor", [])
        known = any(consumer["uid"] == uid for consumer in consumers)
        if known or len(consumers) >= _CONSUMERS_MAX or claim["metadata"].get("deletionTimestamp"):
            continue
        consumers.append({"resource": "pods", "name": pod["metadata"]["name"], "uid": uid})
        await api.update("resourceclaims", claim, subresource="status")
