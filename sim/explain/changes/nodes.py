"""Let the pod go to nodes that it may not use now: selectors, taints, cordons."""

from collections.abc import Callable, Iterator

from kube.objects import JsonObject
from sim.explain.case import Case
from sim.explain.changes.proposal import Proposal, node_edit, pod_edit
from sim.explain.model import Change
from sim.explain.nodereasons import node_refusal
from sim.scheduler.placement import Unplaced
from sim.scheduler.taints import taint_text, untolerated

_RANK_SELECTOR = 14
_RANK_CORDON = 16
_RANK_TAINT = 18
_NODES_MAX = 40
_TRIED_MAX = 6


def change_nodes(case: Case, found: Unplaced) -> Iterator[Proposal]:
    """Propose to open nodes of each kind of refusal."""
    refused: dict[str, list[str]] = {}
    for node, text in found.refusals.items():
        refused.setdefault(node_refusal(text).code, []).append(node)
    yield from _selectors(case, tuple(refused.get("NodeNotChosen", ())))
    for node in refused.get("NodeUnschedulable", ())[:_TRIED_MAX]:
        yield _uncordoned(node)
    yield from _taints(case, refused.get("NodeTaintNotTolerated", []))


def _selectors(case: Case, nodes: tuple[str, ...]) -> Iterator[Proposal]:
    if not nodes:
        return
    tried = tuple(node for node in nodes if case.devices(node))[:_NODES_MAX]
    spec = case.pod["spec"]
    for label, value in (spec.get("nodeSelector") or {}).items():
        said = f"{label}={value}"
        yield Proposal(
            change=_change(
                "DropNodeSelector",
                f"spec.nodeSelector[{label}]",
                f"the pod is without the node selector {said}",
                before=said,
            ),
            rank=_RANK_SELECTOR,
            edit=pod_edit(_dropping(label)),
            nodes=tried,
        )
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
        yield Proposal(
            change=_change(
                "DropNodeAffinity",
                "spec.affinity.nodeAffinity",
                "the pod is without its required node affinity",
                before="required",
            ),
            rank=_RANK_SELECTOR,
            edit=pod_edit(_without_affinity),
            nodes=tried,
        )


def _uncordoned(node: str) -> Proposal:
    field = f"node/{node}: spec.unschedulable"
    return Proposal(
        change=_change("Uncordon", field, f"node {node} is uncordoned", before="true"),
        rank=_RANK_CORDON,
        edit=node_edit(node, lambda body: body["spec"].pop("unschedulable", None)),
        nodes=(node,),
    )


def _taints(case: Case, nodes: list[str]) -> Iterator[Proposal]:
    by_taint: dict[str, tuple[JsonObject, list[str]]] = {}
    for node in nodes:
        taints = (case.nodes[node].get("spec") or {}).get("taints") or ()
        taint = untolerated(taints, case.pod["spec"].get("tolerations") or ())
        if taint is not None:
            by_taint.setdefault(taint_text(taint), (taint, []))[1].append(node)
    for text, (taint, tainted) in list(by_taint.items())[:_TRIED_MAX]:
        sentence = f"the pod tolerates the node taint {text}"
        yield Proposal(
            change=_change("TolerateNodeTaint", "spec.tolerations", sentence, after=text),
            rank=_RANK_TAINT,
            edit=pod_edit(_tolerating(taint)),
            nodes=tuple(node for node in tainted if case.devices(node))[:_NODES_MAX],
        )


def _change(code: str, field: str, sentence: str, *, before: str = "", after: str = "") -> Change:
    return Change(code=code, field=field, before=before, after=after, sentence=sentence, node="")


def _dropping(label: str) -> Callable[[JsonObject], None]:
    def change(spec: JsonObject) -> None:
        del spec["nodeSelector"][label]

    return change


def _without_affinity(spec: JsonObject) -> None:
    del spec["affinity"]["nodeAffinity"]


def _tolerating(taint: JsonObject) -> Callable[[JsonObject], None]:
    toleration = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}

    def change(spec: JsonObject) -> None:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), toleration]

    return change
