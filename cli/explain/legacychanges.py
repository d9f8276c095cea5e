"""The smallest change with which a legacy pod fits: each is made to the pod and asked again.

Requests come first, lowered to the most that fits somewhere; then annotations, what others hold,
and nodes that the pod may not use now.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import islice
from typing import Final

from cli.explain.legacycase import LegacyCase
from cli.explain.legacylowering import lowered, lowered_together, reread
from cli.explain.legacywords import all_amounts
from extender.accounting import NOTHING, Use
from extender.model import Ask
from extender.state.places import Held
from hami import userkeys
from sim.explain.model import Change
from sim.explain.nodereasons import node_refusal
from sim.scheduler.taints import taint_text, untolerated

_TOLD: Final = 2
_NODES_MAX: Final = 40
_HOLDERS_MAX: Final = 40


def smallest_changes(case: LegacyCase, nearest: Sequence[str]) -> tuple[Change, ...]:
    """Return the first changes that help, none of them twice in kind.

    *nearest* are the nodes that refuse, those that nearly serve first.
    """
    told: dict[str, Change] = {}
    for change in _changes(case, nearest):
        told.setdefault(change.code, change)
        if len(told) == _TOLD:
            break
    return tuple(told.values())


def _changes(case: LegacyCase, nearest: Sequence[str]) -> Iterator[Change]:
    usable = [node for node in nearest if not case.barred(node) and not case.refusal(node)]
    yield from lowered(case, usable)
    yield from _annotations(case, usable)
    yield from lowered_together(case, usable)
    yield from _holders(case, nearest)
    yield from _nodes(case, nearest)


def _annotations(case: LegacyCase, nodes: Sequence[str]) -> Iterator[Change]:
    for key in _choosing_keys(case):
        text = case.ask.annotations.get(key, "")
        if not text.strip():
            continue
        pod = deepcopy(case.pod)
        del pod["metadata"]["annotations"][key]
        node = _first(case, nodes, reread(case, pod))
        if node:
            yield Change(
                code="DropAnnotation",
                field=f"metadata.annotations[{key}]",
                before=text,
                after="",
                sentence=f"the pod is without the annotation {key}={text}",
                node=node,
            )


def _choosing_keys(case: LegacyCase) -> tuple[str, ...]:
    """Return the annotations that keep devices from the pod, the narrowest first."""
    words = {each.word for request in case.ask.valid.requests for each in request.devices}
    keys = [userkeys.USE_UUID, userkeys.NOUSE_UUID, userkeys.USE_TYPE, userkeys.NOUSE_TYPE]
    keys += [userkeys.VGPU_MODE, userkeys.NUMA_BIND]
    for vendor in case.config.vendors:
        if vendor.word in words:
            keys += [*vendor.use_uuid_keys, *vendor.nouse_uuid_keys]
            keys += [*vendor.use_type_keys, *vendor.nouse_type_keys]
    return (*keys, userkeys.NUMA_ALIGNMENT, userkeys.GPU_POLICY)


def _holders(case: LegacyCase, nodes: Sequence[str]) -> Iterator[Change]:
    """Yield the end of the pod that holds least among those whose end is enough."""
    best: tuple[tuple[int, int], Held, str] | None = None
    for node in islice((it for it in nodes if not case.barred(it)), _NODES_MAX):
        held = sorted(case.place(node).held.values(), key=_size)
        for each in held[:_HOLDERS_MAX]:
            if best is not None and _size(each) >= best[0]:
                break
            with case.without(each.uid):
                enough = case.takes(node)
            if enough:
                best = _size(each), each, node
                break
    if best is not None:
        _, each, node = best
        has = all_amounts(each.booking.uses) if each.booking else ""
        what = f"holds {has} of node {node}" if has else "closes it"
        yield Change(
            code="WaitForPod",
            field=f"pod/{each.pod}",
            before="",
            after="",
            sentence=f"pod {each.pod} ends, which {what}",
            node=node,
        )


def _size(held: Held) -> tuple[int, int]:
    total = _total(held)
    return total.memory_mib, total.cores


def _total(held: Held) -> Use:
    if held.booking is None:
        return NOTHING
    uses = [use for by_uuid in held.booking.uses.values() for use in by_uuid.values()]
    return sum(uses, NOTHING)


def _nodes(case: LegacyCase, nodes: Sequence[str]) -> Iterator[Change]:
    """Yield how a node that has what is asked can be opened to the pod."""
    for name in islice((it for it in nodes if case.barred(it) and case.takes(it)), _NODES_MAX):
        refusal = node_refusal(case.barred(name))
        node, pod = deepcopy(case.nodes[name]), deepcopy(case.pod)
        spec = node.get("spec") or {}
        if refusal.code == "NodeUnschedulable":
            spec.pop("unschedulable")
            if not case.barred_from(node):
                field, sentence = f"node/{name}: spec.unschedulable", f"node {name} is uncordoned"
                yield _opened("Uncordon", field, sentence, name, before="true")
            continue
        tolerations = pod["spec"].get("tolerations") or ()
        taint = untolerated(spec.get("taints") or (), tolerations)
        if refusal.code != "NodeTaintNotTolerated" or taint is None:
            continue
        added = {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}
        pod["spec"]["tolerations"] = [*tolerations, added]
        if not case.barred(name, pod=pod):
            text = taint_text(taint)
            sentence = f"the pod tolerates the node taint {text}"
            yield _opened("TolerateNodeTaint", "spec.tolerations", sentence, name, after=text)


def _opened(code: str, field: str, sentence: str, node: str, **said: str) -> Change:
    return Change(
        code=code,
        field=field,
        before=said.get("before", ""),
        after=said.get("after", ""),
        sentence=sentence,
        node=node,
    )


def _first(case: LegacyCase, nodes: Sequence[str], ask: Ask | None) -> str:
    if ask is None:
        return ""
    return next((node for node in nodes if case.takes(node, ask)), "")
