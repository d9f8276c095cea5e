"""Give the scheduler's words about whole nodes stable codes."""

from collections.abc import Iterable

from gpu.refusal import Refusal
from kube.objects import JsonObject, key_of
from sim.explain.remedies import remedy_of
from sim.scheduler.placement import NO_DEVICES, OTHER_NODE
from sim.scheduler.podclaims import allocation_of

CANNOT_ALLOCATE = "CannotAllocate"
ELSEWHERE = "ClaimElsewhere"
_TAINT = "node(s) had untolerated taint"
_LACKING = "Insufficient "
_KNOWN = {
    "node(s) were unschedulable": ("NodeUnschedulable", "spec.unschedulable", "true"),
    "node(s) didn't match Pod's node affinity/selector": ("NodeNotChosen", "spec.nodeSelector", ""),
    NO_DEVICES: (CANNOT_ALLOCATE, "status.allocation", ""),
}


def node_refusal(text: str, allocated: Iterable[JsonObject] = ()) -> Refusal:
    """Return the refusal that the scheduler worded as *text*.

    *allocated* are the pod's claims that have devices already.
    """
    if text in _KNOWN:
        code, field, value = _KNOWN[text]
    elif text == OTHER_NODE:
        code, field = ELSEWHERE, "status.allocation.nodeSelector"
        value = ", ".join(_place_of(claim) for claim in allocated)
    elif text.startswith(_TAINT):
        code, field, value = (
            "NodeTaintNotTolerated",
            "spec.tolerations",
            text[len(_TAINT) :].strip(),
        )
    elif text.startswith(_LACKING):
        code, field = "NodeResourceInsufficient", "spec.containers.resources"
        value = text.removeprefix(_LACKING)
    elif "is invalid" in text:
        code, field, value = "PoolInvalid", "pool", text
    else:
        code, field, value = "NodeError", "status.allocation", text
    return Refusal(code=code, field=field, value=value, remedy=remedy_of(code))


def _place_of(claim: JsonObject) -> str:
    """Say where *claim* has its devices, as far as it names nodes or labels."""
    terms = ((allocation_of(claim) or {}).get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    values = [
        str(value)
        for term in terms
        for kind in ("matchFields", "matchExpressions")
        for requirement in term.get(kind) or ()
        for value in requirement.get("values") or ()
    ]
    return f"{key_of(claim)} is allocated" + (f" for {', '.join(values)}" if values else "")
