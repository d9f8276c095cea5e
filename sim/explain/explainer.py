"""Explain one pod or claim: ask the scheduler's rules, then tell what they said."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpu.refusal import Refusal
from kube.objects import JsonObject, ObjectKey
from kube.quantity import QuantityError
from sim.explain.answers import Answers
from sim.explain.case import Case, case_of
from sim.explain.changes import smallest_changes
from sim.explain.devicereasons import device_reason
from sim.explain.fatal import fatal_refusal
from sim.explain.generating import generated
from sim.explain.model import DeviceReason, Explanation, Given, NodeReason, Subject, Verdict
from sim.explain.naming import asked_of
from sim.explain.nodereasons import node_refusal
from sim.explain.remedies import remedy_of
from sim.explain.rules import Rules
from sim.explain.snapshot import Snapshot
from sim.explain.subjects import check_protocol, claim_of, placing_of, pod_of
from sim.explain.waiting import (
    admin_forbidden,
    gated,
    label_namespace,
    ungated,
    waiting,
)
from sim.scheduler.nodefilter import finished
from sim.scheduler.placement import Placed, Unplaced
from sim.scheduler.podclaims import WaitingError, allocation_of, claims_of

_SCHEDULER = "default-scheduler"
_PASSING = {"ClaimNotGenerated", "SchedulingGated"}
"""What goes by without anything that concerns devices."""
_SPOILED_MAX = 5
"""One cut file must not hide what there is to say."""


def explain_pod(snapshot: Snapshot, key: ObjectKey, *, rules: Rules) -> Explanation:
    """Explain pod *key* by *rules*; raises `ExplainError`."""
    pod = pod_of(snapshot, key)
    subject = Subject(kind="Pod", namespace=key.namespace, name=key.name)
    done = _done(pod, subject, snapshot, rules)
    if done is not None:
        return done
    check_protocol(pod, snapshot)
    return _explain(snapshot, pod, subject, rules)


def explain_claim(snapshot: Snapshot, key: ObjectKey, *, rules: Rules) -> Explanation:
    """Explain claim *key* with a pod that uses it; raises `ExplainError`."""
    claim = claim_of(snapshot, key)
    subject = Subject(kind="ResourceClaim", namespace=key.namespace, name=key.name)
    if allocation_of(claim):
        return _allocated(claim, subject, rules)
    pod, note = placing_of(snapshot, claim)
    said = _explain(snapshot, pod, subject, rules)
    return replace(said, notes=(note, *said.notes))


def _done(
    pod: JsonObject, subject: Subject, snapshot: Snapshot, rules: Rules
) -> Explanation | None:
    """Return what there is to say about a pod that no scheduler looks at any more."""
    node, phase = pod["spec"].get("nodeName"), (pod.get("status") or {}).get("phase", "")
    if not node and not finished(pod):
        return None
    verdict = Verdict.FINISHED if finished(pod) else Verdict.SCHEDULED
    where = f" on node {node}" if node else ""
    try:
        claims: Iterable[JsonObject] = claims_of(pod, snapshot.claims).allocated
    except WaitingError:
        claims = ()
    return Explanation(
        subject=subject,
        verdict=verdict,
        message=f"{subject} has its place{where}, phase {phase or 'unknown'}",
        release=rules.release,
        node=node or "",
        given=tuple(given for claim in claims for given in _given(claim, allocation_of(claim))),
    )


def _allocated(claim: JsonObject, subject: Subject, rules: Rules) -> Explanation:
    consumers = (claim["status"].get("reservedFor")) or ()
    pods = ", ".join(str(consumer.get("name", "")) for consumer in consumers)
    return Explanation(
        subject=subject,
        verdict=Verdict.ALLOCATED,
        message=f"{subject} has devices, " + (f"reserved for {pods}" if pods else "for no pod yet"),
        release=rules.release,
        given=tuple(_given(claim, allocation_of(claim))),
    )


def _explain(snapshot: Snapshot, pod: JsonObject, subject: Subject, rules: Rules) -> Explanation:
    said = _judged(snapshot, pod, subject, rules)
    condition = _condition(pod)
    name = pod["spec"].get("schedulerName") or _SCHEDULER
    notes = said.notes
    if name != _SCHEDULER:
        notes = (f"the pod is for scheduler {name}; these are the rules of kube-scheduler", *notes)
    notes = (*filter(None, [rules.note]), *snapshot.spoiled[:_SPOILED_MAX], *notes)
    return replace(
        said,
        gates=dict(rules.gates),
        scheduler_says=condition,
        notes=notes,
        nodes_total=len(snapshot.nodes),
    )


def _judged(snapshot: Snapshot, pod: JsonObject, subject: Subject, rules: Rules) -> Explanation:
    before = gated(pod) + waiting(pod, snapshot)
    if before and {it.code for it in before} <= _PASSING:
        return _judged_later(snapshot, pod, subject, rules)
    if before:
        return _stopped(subject, rules, before)
    allocator = rules.allocator(Answers())
    try:
        case = case_of(pod, snapshot.view(), allocator)
    except (WaitingError, QuantityError) as error:
        code = "ClaimWaits" if isinstance(error, WaitingError) else "ClaimMalformed"
        refusal = Refusal(code=code, field="spec.devices", value=str(error), remedy=remedy_of(code))
        return _stopped(subject, rules, (refusal,))
    found = case.placed()
    forbidden = admin_forbidden(case.claims.pending, snapshot, pod["metadata"]["namespace"])
    said = Explanation(
        subject=subject,
        verdict=Verdict.FITS,
        message="",
        release=rules.release,
        asked=tuple(asked_of(place) for place in case.places.values()),
    )
    if isinstance(found, Placed) and not forbidden:
        return _fits(said, found)
    return _pending(said, case, found, forbidden, rules)


def _judged_later(
    snapshot: Snapshot, pod: JsonObject, subject: Subject, rules: Rules
) -> Explanation:
    """Tell what will become of *pod* once what it waits for has happened."""
    before = gated(pod) + waiting(pod, snapshot)
    then, after = generated(ungated(pod), snapshot)
    said = _judged(after, then, subject, rules)
    message = said.message
    if said.verdict is Verdict.FITS:
        message = f"{subject} is pending, and then fits on node {said.node}"
    return replace(said, verdict=Verdict.PENDING, message=message, reasons=before + said.reasons)


def _stopped(subject: Subject, rules: Rules, reasons: tuple[Refusal, ...]) -> Explanation:
    return Explanation(
        subject=subject,
        verdict=Verdict.PENDING,
        message=f"{subject} is pending, and no node is looked at yet",
        release=rules.release,
        reasons=reasons,
    )


def _fits(said: Explanation, found: Placed) -> Explanation:
    made = (found.extended.claim,) if found.extended else ()
    pairs = zip((*found.claims.pending, *made), found.allocations, strict=True)
    return replace(
        said,
        message=f"{said.subject} fits on node {found.node}",
        node=found.node,
        given=tuple(given for claim, made in pairs for given in _given(claim, made)),
    )


def _pending(
    said: Explanation,
    case: Case,
    found: Placed | Unplaced,
    forbidden: tuple[Refusal, ...],
    rules: Rules,
) -> Explanation:
    if isinstance(found, Placed):
        return replace(
            said,
            verdict=Verdict.PENDING,
            message=f"{said.subject} is pending: its namespace may not have what it asks for",
            reasons=forbidden,
            changes=(label_namespace(said.subject.namespace, found.node),),
        )
    fatal = (fatal_refusal(case, found),) if found.fatal else ()
    why = "something stops it on every node" if fatal else "no node can serve it"
    return replace(
        said,
        verdict=Verdict.PENDING,
        message=f"{said.subject} is pending: {why}",
        reasons=forbidden + fatal,
        nodes=() if fatal else tuple(_nodes(case, found)),
        changes=smallest_changes(case, found, rules),
    )


def _nodes(case: Case, found: Unplaced) -> Iterator[NodeReason]:
    devices: dict[str, list[DeviceReason]] = {}
    for verdict in found.verdicts:
        devices.setdefault(verdict.node, []).append(device_reason(case, verdict))
    for node, text in found.refusals.items():
        yield NodeReason(
            node=node,
            refusal=node_refusal(text, case.claims.allocated),
            devices=tuple(devices.get(node, ())),
        )


def _given(claim: JsonObject, allocation: JsonObject | None) -> Iterator[Given]:
    for result in ((allocation or {}).get("devices") or {}).get("results") or ():
        yield Given(
            claim=f"{claim['metadata']['namespace']}/{claim['metadata']['name']}",
            request=result["request"],
            driver=result["driver"],
            pool=result["pool"],
            device=result["device"],
            consumed=dict(result.get("consumedCapacity") or {}),
        )


def _condition(pod: JsonObject) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message", ""))
    return ""
