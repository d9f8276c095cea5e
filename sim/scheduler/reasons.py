"""Say why a pod is pending: one line for its condition, and every device for who wants to know.

The scheduler of Kubernetes says "cannot allocate all claims" for a full card, a typo and an
impossible size alike. Here each device keeps the first rule that refused it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kube.objects import JsonObject, ObjectKey
from sim.scheduler.allocator import Allocator
from sim.scheduler.placement import Placed, Unplaced, View, place
from sim.scheduler.podclaims import WaitingError
from sim.scheduler.verdicts import DeviceVerdict

_PARTS_MAX = 8
_FATAL_UNSCHEDULABLE = ("ClassMissing",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Why a pod has no node."""

    reason: str
    """`Unschedulable`, or `SchedulerError` where nothing but a change of the claim helps."""
    message: str
    verdicts: tuple[DeviceVerdict, ...] = ()


def explain(pod: JsonObject, view: View, *, profile: str) -> list[DeviceVerdict]:
    """Return for each node, claim, request and device the first rule that refuses it.

    Empty when the pod would be placed, or waits for something other than devices.
    """
    pending = pending_of(pod, view, Allocator(profile))
    return list(pending.verdicts) if pending else []


def pending_of(pod: JsonObject, view: View, allocator: Allocator) -> Pending | None:
    """Return why *pod* finds no node in *view*, or nothing when it does."""
    try:
        found = place(pod, view, allocator)
    except WaitingError as waiting:
        return waiting_for(waiting)
    return None if isinstance(found, Placed) else pending(found)


def waiting_for(waiting: WaitingError) -> Pending:
    """Say that a claim is not there yet."""
    return Pending(reason="Unschedulable", message=str(waiting))


def pending(unplaced: Unplaced) -> Pending:
    """Say why no node was found."""
    if unplaced.fatal:
        known = unplaced.code in _FATAL_UNSCHEDULABLE
        return Pending(
            reason="Unschedulable" if known else "SchedulerError",
            message=f"{unplaced.code}: {unplaced.fatal}",
            verdicts=unplaced.verdicts,
        )
    return Pending(
        reason="Unschedulable",
        message=_message(unplaced),
        verdicts=unplaced.verdicts,
    )


def _message(unplaced: Unplaced) -> str:
    nodes = len(unplaced.refusals)
    if not nodes:
        return "0/0 nodes are available: no nodes are registered."
    counted = Counter(unplaced.refusals.values())
    parts = [f"{number} {text}" for text, number in sorted(counted.items())]
    said = f"0/{nodes} nodes are available: {', '.join(parts)}."
    devices = devices_text(unplaced.verdicts)
    return f"{said} {devices}" if devices else said


def devices_text(verdicts: Sequence[DeviceVerdict]) -> str:
    """Condense *verdicts*: one part per claim, request and code, numbers of the first."""
    groups: dict[tuple[ObjectKey, str, str], list[DeviceVerdict]] = {}
    for verdict in verdicts:
        key = (verdict.claim, verdict.request, verdict.refused.code)
        groups.setdefault(key, []).append(verdict)
    parts = [_group_text(*key, group) for key, group in groups.items()]
    left_out = len(parts) - _PARTS_MAX
    if left_out > 0:
        parts = [*parts[:_PARTS_MAX], f"and {left_out} more"]
    return "; ".join(parts) + "." if parts else ""


def verdict_text(verdict: DeviceVerdict) -> str:
    """Write one verdict on one line."""
    where = (
        f"{verdict.node}/{verdict.device.device or verdict.device.pool}"
        if verdict.device
        else verdict.node
    )
    said = str(verdict.refused)
    return f"{where}: {verdict.refused.code}" + (f" ({said})" if said else "")


def _group_text(claim: ObjectKey, request: str, code: str, group: Iterable[DeviceVerdict]) -> str:
    verdicts = list(group)
    asked_by = f"claim {claim.name}" + (f" request {request}" if request else "")
    devices = sum(bool(it.device and it.device.device) for it in verdicts)
    number = f" on {devices} device{'s' if devices > 1 else ''}" if devices else ""
    said = str(verdicts[0].refused)
    return f"{asked_by}: {code}{number}" + (f" ({said})" if said else "")
