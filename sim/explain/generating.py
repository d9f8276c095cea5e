"""Claims that a controller has yet to make from templates, as it would make them.

A pod that waits for them alone can still be told what will become of it
(kubernetes: pkg/controller/resourceclaim).
"""

from dataclasses import replace

from kube.objects import JsonObject, ObjectKey, key_of
from sim.explain.snapshot import Snapshot


def generated(pod: JsonObject, snapshot: Snapshot) -> tuple[JsonObject, Snapshot]:
    """Return *pod* and *snapshot* with all claims made whose templates are there."""
    namespace = pod["metadata"]["namespace"]
    statuses = list((pod.get("status") or {}).get("resourceClaimStatuses") or ())
    known = {status["name"] for status in statuses}
    claims = dict(snapshot.claims)
    for entry in pod["spec"].get("resourceClaims") or ():
        template = snapshot.templates.get(
            ObjectKey(namespace, entry.get("resourceClaimTemplateName") or "")
        )
        if template is None or entry["name"] in known or entry.get("resourceClaimName"):
            continue
        claim = _claim(pod, entry["name"], template)
        claims[key_of(claim)] = claim
        statuses.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
    status = {**(pod.get("status") or {}), "resourceClaimStatuses": statuses}
    return {**pod, "status": status}, replace(snapshot, claims=claims)


def _claim(pod: JsonObject, entry: str, template: JsonObject) -> JsonObject:
    metadata = pod["metadata"]
    name = f"{metadata['name']}-{entry}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "uid": name,
            "ownerReferences": [owner],
        },
        "spec": template["spec"]["spec"],
    }
