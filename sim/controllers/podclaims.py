"""Which claims a pod uses, as the scheduler, kubelet and controllers all read it.

Names of generated claims stand in `pod.status.resourceClaimStatuses`; nobody may compute them
(dynamic-resource-allocation: resourceclaim/claim.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kube.objects import JsonObject


def claim_names(pod: JsonObject) -> dict[str, str | None]:
    """Return the claim of each entry of `spec.resourceClaims`; None when not yet generated."""
    generated = {
        status["name"]: status.get("resourceClaimName")
        for status in pod.get("status", {}).get("resourceClaimStatuses", ())
    }
    return {
        entry["name"]: entry.get("resourceClaimName") or generated.get(entry["name"])
        for entry in pod["spec"].get("resourceClaims", ())
    }


def is_terminal(pod: JsonObject) -> bool:
    """Tell whether no container of the pod runs or ever will."""
    if pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return True
    return bool(pod["metadata"].get("deletionTimestamp")) and not pod["spec"].get("nodeName")


def owning_pod(claim: JsonObject) -> tuple[str, str] | None:
    """Return name and UID of the pod that *claim* was generated for."""
    for owner in claim["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and (owner["apiVersion"], owner["kind"]) == ("v1", "Pod"):
            return owner["name"], owner["uid"]
    return None
