"""Which claims a pod waits for, and whether they are there.

A pod names a claim, or a template from which a controller makes one and notes its name in the
pod's status; a name of nothing there means that the pod needs none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kube.objects import JsonObject, ObjectKey
from sim.scheduler.errors import SchedulerError

RESERVED_MAX = 256
"""How many pods may share a claim (resource.k8s.io/v1 `reservedFor`)."""


class WaitingError(SchedulerError):
    """The pod waits for something other than devices; the text is for its condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaims:
    """The claims of a pod, in its order."""

    pending: tuple[JsonObject, ...] = ()
    """Those that have no devices yet."""
    allocated: tuple[JsonObject, ...] = ()

    def fresh(self) -> tuple[JsonObject, ...]:
        """Return the claims with devices that no pod has reserved."""
        return tuple(
            claim for claim in self.allocated if not (claim["status"].get("reservedFor") or ())
        )


def claims_of(pod: JsonObject, claims: Mapping[ObjectKey, JsonObject]) -> PodClaims:
    """Look up the claims of *pod*; raises `WaitingError`."""
    found: dict[ObjectKey, JsonObject] = {}
    for key, generated in _names(pod):
        claim = claims.get(key)
        if claim is None:
            msg = f'resourceclaim "{key.name}" not found'
            raise WaitingError(msg)
        _check(claim, pod, generated=generated)
        found[key] = claim
    return PodClaims(
        pending=tuple(claim for claim in found.values() if not allocation_of(claim)),
        allocated=tuple(claim for claim in found.values() if allocation_of(claim)),
    )


def allocation_of(claim: JsonObject) -> JsonObject | None:
    """Return the allocation of *claim*, if it has one."""
    allocation: JsonObject | None = (claim.get("status") or {}).get("allocation")
    return allocation


def reserves(claim: JsonObject, pod: JsonObject) -> bool:
    """Tell whether *claim* is reserved for *pod*."""
    consumers = (claim.get("status") or {}).get("reservedFor") or ()
    return any(consumer.get("uid") == pod["metadata"]["uid"] for consumer in consumers)


def _names(pod: JsonObject) -> Iterator[tuple[ObjectKey, bool]]:
    namespace = pod["metadata"]["namespace"]
    statuses = {
        item["name"]: item for item in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry.get("resourceClaimName"):
            yield ObjectKey(namespace, entry["resourceClaimName"]), False
            continue
        status = statuses.get(entry["name"])
        if status is None:
            template = entry.get("resourceClaimTemplateName", "")
            msg = f'the claim for "{entry["name"]}" is not yet made from template "{template}"'
            raise WaitingError(msg)
        if status.get("resourceClaimName"):
            yield ObjectKey(namespace, status["resourceClaimName"]), True


def _check(claim: JsonObject, pod: JsonObject, *, generated: bool) -> None:
    metadata = claim["metadata"]
    name = metadata["name"]
    if metadata.get("deletionTimestamp"):
        msg = f'resourceclaim "{name}" is being deleted'
        raise WaitingError(msg)
    owners = {owner.get("uid") for owner in metadata.get("ownerReferences") or ()}
    if generated and pod["metadata"]["uid"] not in owners:
        msg = f'resourceclaim "{name}" was not made for this pod'
        raise WaitingError(msg)
    consumers = (claim.get("status") or {}).get("reservedFor") or ()
    if len(consumers) >= RESERVED_MAX and not reserves(claim, pod):
        msg = f'resourceclaim "{name}" is in use by {RESERVED_MAX} pods'
        raise WaitingError(msg)
