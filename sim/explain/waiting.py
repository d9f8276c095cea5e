"""What keeps a pod from being looked at at all: its claims are not there, or may not be used.

The order is that of the pod's claims; unlike the scheduler, which stops at the first, all are
told. Facts: resource.k8s.io/v1 `reservedFor` (256 entries), pkg/controller/resourceclaim.
"""

from collections.abc import Iterable, Iterator

from gpu.refusal import Refusal
from kube.objects import JsonObject, ObjectKey
from sim.explain.model import Change
from sim.explain.remedies import remedy_of
from sim.explain.snapshot import Snapshot
from sim.scheduler.podclaims import RESERVED_MAX, reserves

ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def gated(pod: JsonObject) -> tuple[Refusal, ...]:
    """Return what keeps the scheduler from trying *pod*, whatever its claims."""
    found = []
    if pod["metadata"].get("deletionTimestamp"):
        found.append(_refusal("PodBeingDeleted", "metadata.deletionTimestamp", "set"))
    gates = [str(gate.get("name", "")) for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        found.append(_refusal("SchedulingGated", "spec.schedulingGates", ", ".join(gates)))
    return tuple(found)


def ungated(pod: JsonObject) -> JsonObject:
    """Return *pod* without its scheduling gates."""
    return {**pod, "spec": {key: it for key, it in pod["spec"].items() if key != "schedulingGates"}}


def waiting(pod: JsonObject, snapshot: Snapshot) -> tuple[Refusal, ...]:
    """Return what is wrong with the claims of *pod*, apart from devices."""
    return tuple(_waiting(pod, snapshot))


def admin_forbidden(
    claims: Iterable[JsonObject], snapshot: Snapshot, namespace: str
) -> tuple[Refusal, ...]:
    """Refuse admin access where the namespace is known not to allow it (KEP-5018)."""
    known = snapshot.namespaces.get(namespace)
    if known is None or (known["metadata"].get("labels") or {}).get(ADMIN_LABEL) == "true":
        return ()
    return tuple(
        _refusal(
            "AdminAccessForbidden",
            f"{claim['metadata']['name']}: spec.devices.requests[{name}].adminAccess",
            "true",
            f"namespace {namespace} has no label {ADMIN_LABEL}=true",
        )
        for claim in claims
        for name in _admin_requests(claim)
    )


def label_namespace(namespace: str, node: str) -> Change:
    """Return the change for a pod that fits on *node* but for its namespace's label."""
    label = f"{ADMIN_LABEL}=true"
    return Change(
        code="LabelNamespace",
        field=f"namespace/{namespace}: metadata.labels",
        before="",
        after=label,
        sentence=f"namespace {namespace} has the label {label}",
        node=node,
    )


def _admin_requests(claim: JsonObject) -> Iterator[str]:
    devices = (claim.get("spec") or {}).get("devices") or {}
    for request in devices.get("requests") or ():
        if (request.get("exactly") or {}).get("adminAccess"):
            yield str(request["name"])


def _waiting(pod: JsonObject, snapshot: Snapshot) -> Iterator[Refusal]:
    namespace = pod["metadata"]["namespace"]
    for index, entry in enumerate(pod["spec"].get("resourceClaims") or ()):
        path = f"spec.resourceClaims[{index}]"
        name, generated = entry.get("resourceClaimName"), False
        if not name:
            status = _status_of(pod, entry["name"])
            if status is None:
                template = ObjectKey(namespace, entry.get("resourceClaimTemplateName", ""))
                yield _not_generated(template, snapshot, path)
                continue
            name, generated = status.get("resourceClaimName"), True
        if name:
            yield from _claim_wrong(ObjectKey(namespace, name), pod, snapshot, path, generated)


def _status_of(pod: JsonObject, name: str) -> JsonObject | None:
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return next((it for it in statuses if it["name"] == name), None)


def _not_generated(template: ObjectKey, snapshot: Snapshot, path: str) -> Refusal:
    field = f"{path}.resourceClaimTemplateName"
    if template not in snapshot.templates:
        return _refusal("TemplateMissing", field, template.name, "there is no such template")
    return _refusal("ClaimNotGenerated", field, template.name, "no claim is made from it yet")


def _claim_wrong(
    key: ObjectKey,
    pod: JsonObject,
    snapshot: Snapshot,
    path: str,
    generated: bool,  # noqa: FBT001
) -> Iterator[Refusal]:
    field = f"{path}.resourceClaimName"
    claim = snapshot.claims.get(key)
    if claim is None:
        yield _refusal("ClaimMissing", field, key.name, "there is no such claim")
        return
    owners = {owner.get("uid") for owner in claim["metadata"].get("ownerReferences") or ()}
    consumers = (claim.get("status") or {}).get("reservedFor") or ()
    if claim["metadata"].get("deletionTimestamp"):
        yield _refusal("ClaimBeingDeleted", field, key.name)
    elif generated and pod["metadata"]["uid"] not in owners:
        yield _refusal("ClaimNotForPod", field, key.name, "it was not made for this pod")
    elif len(consumers) >= RESERVED_MAX and not reserves(claim, pod):
        limit = f"{len(consumers)} pods have it, which is the most"
        yield _refusal("ClaimReservedFull", field, key.name, limit)


def _refusal(code: str, field: str, value: str, limit: str = "") -> Refusal:
    return Refusal(code=code, field=field, value=value, limit=limit, remedy=remedy_of(code))
