"""Ask differently: fewer devices, without a selector or a constraint, with a toleration."""

import difflib
from collections.abc import Iterator

from kube.objects import JsonObject, ObjectKey
from sim.explain.case import Case
from sim.explain.changes.proposal import Edit, Proposal, claim_edit, request_edit
from sim.explain.devicereasons import device_of
from sim.explain.fatal import missing_class
from sim.explain.model import Change
from sim.explain.naming import Place
from sim.scheduler.checking import RESULTS_MAX
from sim.scheduler.placement import Unplaced
from sim.scheduler.requests import ALL, EXACT_COUNT
from sim.scheduler.taints import taint_text, untolerated

_RANK_CLASS_NAME = 6
_RANK_SELECTOR = 30
_RANK_CONSTRAINT = 32
_RANK_COUNT = 35
_RANK_TAINT = 55
_RANK_CLASS = 65
_NODES_MAX = 6
_CLASSES_MAX = 8
_SIMILAR = 0.6


def change_requests(case: Case, found: Unplaced, anywhere: tuple[str, ...]) -> Iterator[Proposal]:
    """Propose changes of what is asked, amounts apart; *anywhere* stands for all nodes."""
    yield from _class_names(case, anywhere)
    yield from _selectors(case, found, anywhere)
    yield from _constraints(case, found, anywhere)
    yield from _counts(case, found, anywhere)
    yield from _tolerations(case, found)
    yield from _other_classes(case, found)


def _class_names(case: Case, anywhere: tuple[str, ...]) -> Iterator[Proposal]:
    place = missing_class(case)
    if place is None:
        return
    wrong = place.wanted.class_name
    similar = difflib.get_close_matches(wrong, case.view.classes, n=_CLASSES_MAX, cutoff=_SIMILAR)
    for position, name in enumerate(dict.fromkeys([*similar, *sorted(case.view.classes)])):
        if position < _CLASSES_MAX:
            rank = _RANK_CLASS_NAME if name in similar else _RANK_CLASS
            yield _with_class(place, name, rank, anywhere)


def _other_classes(case: Case, found: Unplaced) -> Iterator[Proposal]:
    for place, nodes in _refused(case, found, "SelectorFalse").items():
        for name in sorted(case.view.classes)[:_CLASSES_MAX]:
            if name != place.wanted.class_name:
                yield _with_class(place, name, _RANK_CLASS, nodes)


def _with_class(place: Place, name: str, rank: int, nodes: tuple[str, ...]) -> Proposal:
    return Proposal(
        change=Change(
            code="OtherClass",
            field=f"{place.claim}: {place.path}.deviceClassName",
            before=place.wanted.class_name,
            after=name,
            sentence=(
                f"request {place.wanted.name} asks for class {name} "
                f"instead of {place.wanted.class_name}"
            ),
            node="",
        ),
        rank=rank,
        edit=_setting(place, "deviceClassName", name),
        nodes=nodes,
    )


def _selectors(case: Case, found: Unplaced, anywhere: tuple[str, ...]) -> Iterator[Proposal]:
    failed = found.fatal if found.code == "SelectorFailed" else ""
    refused = _refused(case, found, "SelectorFalse")
    for place in case.places.values():
        nodes = anywhere if failed else refused.get(place, ())
        for index, selector in enumerate(place.wanted.selectors):
            expression = str((selector.get("cel") or {}).get("expression", ""))
            if nodes and (not failed or expression in failed):
                yield _without_selector(place, index, expression, nodes)


def _without_selector(
    place: Place, index: int, expression: str, nodes: tuple[str, ...]
) -> Proposal:
    def change(request: JsonObject) -> None:
        del request["selectors"][index]

    return Proposal(
        change=Change(
            code="DropSelector",
            field=f"{place.claim}: {place.path}.selectors[{index}]",
            before=expression,
            after="",
            sentence=f"request {place.wanted.name} is without the selector `{expression}`",
            node="",
        ),
        rank=_RANK_SELECTOR,
        edit=request_edit(place.claim, place.wanted.name, change),
        nodes=nodes,
    )


def _constraints(case: Case, found: Unplaced, anywhere: tuple[str, ...]) -> Iterator[Proposal]:
    fatal = found.code == "ConstraintRefused"
    refused = {
        place.claim: nodes for place, nodes in _refused(case, found, "ConstraintRefused").items()
    }
    for claim in case.claims.pending:
        key = ObjectKey(claim["metadata"]["namespace"], claim["metadata"]["name"])
        nodes = anywhere if fatal else refused.get(key, ())
        for index, item in enumerate(claim["spec"]["devices"].get("constraints") or ()):
            if nodes:
                yield _without_constraint(key, index, item, nodes)


def _without_constraint(
    claim: ObjectKey, index: int, item: JsonObject, nodes: tuple[str, ...]
) -> Proposal:
    def change(body: JsonObject) -> None:
        del body["spec"]["devices"]["constraints"][index]

    kind = next((it for it in ("matchAttribute", "distinctAttribute") if item.get(it)), "")
    said = f"{kind} {item.get(kind, '')}".strip()
    return Proposal(
        change=Change(
            code="DropConstraint",
            field=f"{claim}: spec.devices.constraints[{index}]",
            before=said,
            after="",
            sentence=f"claim {claim.name} is without the constraint {said}",
            node="",
        ),
        rank=_RANK_CONSTRAINT,
        edit=claim_edit(claim, change),
        nodes=nodes,
    )


def _counts(case: Case, found: Unplaced, anywhere: tuple[str, ...]) -> Iterator[Proposal]:
    for place in case.places.values():
        wanted = place.wanted
        if wanted.mode == ALL:
            nodes = _nodes_of(found, place)
            yield _counted(place, 1, nodes or anywhere)
        elif wanted.count > 1:
            reached = _most_found(found, place)
            least = min(wanted.count - 1, RESULTS_MAX)
            for count in range(least, 0, -1):
                nodes = tuple(node for node, number in reached.items() if number >= count)
                if found.fatal or nodes:
                    yield _counted(place, count, nodes[:_NODES_MAX] or anywhere)


def _most_found(found: Unplaced, place: Place) -> dict[str, int]:
    """Return how many devices each node had for the request, the best node first."""
    numbers: dict[str, int] = {}
    for verdict in found.verdicts:
        asked_here = (verdict.claim, verdict.request) == (place.claim, place.wanted.name)
        if asked_here and verdict.refused.code == "CountNotReached":
            number = int(verdict.refused.limit.partition(" ")[0])
            numbers[verdict.node] = max(numbers.get(verdict.node, 0), number)
    return dict(sorted(numbers.items(), key=lambda it: -it[1]))


def _counted(place: Place, count: int, nodes: tuple[str, ...]) -> Proposal:
    def change(request: JsonObject) -> None:
        request["allocationMode"] = EXACT_COUNT
        request["count"] = count

    before = "all" if place.wanted.mode == ALL else str(place.wanted.count)
    plural = "" if count == 1 else "s"
    return Proposal(
        change=Change(
            code="LowerCount",
            field=f"{place.claim}: {place.path}.count",
            before=before,
            after=str(count),
            sentence=(
                f"request {place.wanted.name} asks for {count} device{plural} instead of {before}"
            ),
            node="",
        ),
        rank=_RANK_COUNT,
        edit=request_edit(place.claim, place.wanted.name, change),
        nodes=nodes,
    )


def _tolerations(case: Case, found: Unplaced) -> Iterator[Proposal]:
    seen: set[tuple[str, str]] = set()
    for verdict in found.verdicts:
        if verdict.refused.code != "TaintNotTolerated" or len(seen) >= _NODES_MAX:
            continue
        place = case.places.get((verdict.claim, verdict.request))
        device = device_of(case, verdict)
        taint = untolerated(device.taints, place.wanted.tolerations) if place and device else None
        if place is None or taint is None or (verdict.node, taint_text(taint)) in seen:
            continue
        seen.add((verdict.node, taint_text(taint)))
        yield _tolerating(place, taint, verdict.node)


def _tolerating(place: Place, taint: JsonObject, node: str) -> Proposal:
    toleration = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}

    def change(request: JsonObject) -> None:
        request["tolerations"] = [*(request.get("tolerations") or ()), toleration]

    return Proposal(
        change=Change(
            code="TolerateDeviceTaint",
            field=f"{place.claim}: {place.path}.tolerations",
            before="",
            after=taint_text(taint),
            sentence=f"request {place.wanted.name} tolerates the taint {taint_text(taint)}",
            node="",
        ),
        rank=_RANK_TAINT,
        edit=request_edit(place.claim, place.wanted.name, change),
        nodes=(node,),
    )


def _setting(place: Place, key: str, value: str) -> Edit:
    def change(request: JsonObject) -> None:
        request[key] = value

    return request_edit(place.claim, place.wanted.name, change)


def _refused(case: Case, found: Unplaced, code: str) -> dict[Place, tuple[str, ...]]:
    """Return for each request some nodes where *code* refused a device to it."""
    nodes: dict[Place, dict[str, None]] = {}
    for verdict in found.verdicts:
        place = case.places.get((verdict.claim, verdict.request))
        if place is not None and verdict.refused.code == code:
            nodes.setdefault(place, {})[verdict.node] = None
    return {place: tuple(known)[:_NODES_MAX] for place, known in nodes.items()}


def _nodes_of(found: Unplaced, place: Place) -> tuple[str, ...]:
    names = dict.fromkeys(it.node for it in found.verdicts if it.claim == place.claim)
    return tuple(names)[:_NODES_MAX]
