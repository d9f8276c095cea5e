"""Give the scheduler's words about whole nodes stable codes."""

from gpu.refusal import Refusal
from sim.explain.remedies import remedy_of
from sim.scheduler.placement import NO_DEVICES, OTHER_NODE

CANNOT_ALLOCATE = "CannotAllocate"
_TAINT = "node(s) had untolerated taint"
_LACKING = "Insufficient "
_KNOWN = {
    "node(s) were unschedulable": ("NodeUnschedulable", "spec.unschedulable", "true"),
    "node(s) didn't match Pod's node affinity/selector": ("NodeNotChosen", "spec.nodeSelector", ""),
    OTHER_NODE: ("ClaimElsewhere", "status.allocation.nodeSelector", ""),
    NO_DEVICES: (CANNOT_ALLOCATE, "status.allocation", ""),
}


def node_refusal(text: str) -> Refusal:
    """Return the refusal that the scheduler worded as *text*."""
    if text in _KNOWN:
        code, field, value = _KNOWN[text]
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
