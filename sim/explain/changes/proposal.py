"""A change that may help: what to say about it, how to make it, and where to try it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from kube.objects import JsonObject, ObjectKey, key_of
from sim.explain.model import Change
from sim.explain.naming import request_of
from sim.scheduler.placement import View


class Situation(NamedTuple):
    """The pod and the cluster, before or after a change."""

    pod: JsonObject
    view: View


Edit = Callable[[Situation], Situation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One change; *change* still lacks its node."""

    change: Change
    rank: int
    """Smaller changes have smaller ranks."""
    edit: Edit
    nodes: tuple[str, ...]
    """Where it could help, the most likely first."""
    frees: bool = False
    """It changes what is held."""


def request_edit(claim: ObjectKey, request: str, change: Callable[[JsonObject], None]) -> Edit:
    """Make an edit of one request: *change* may do what it likes to a copy of it."""

    def edit(before: Situation) -> Situation:
        if claim not in before.view.claims:
            return before
        body = _copied(before.view.claims[claim])
        found = request_of(body, request)
        if found is not None:
            change(found)
        return with_claim(before, body)

    return edit


def claim_edit(claim: ObjectKey, change: Callable[[JsonObject], None]) -> Edit:
    """Make an edit of one claim that is there; *change* may do what it likes to a copy of it."""

    def edit(before: Situation) -> Situation:
        if claim not in before.view.claims:
            return before
        body = _copied(before.view.claims[claim])
        change(body)
        return with_claim(before, body)

    return edit


def pod_edit(change: Callable[[JsonObject], None]) -> Edit:
    """Make an edit of the pod's spec; *change* may do what it likes to a copy of it."""

    def edit(before: Situation) -> Situation:
        pod = _copied(before.pod)
        change(pod["spec"])
        return Situation(pod, before.view)

    return edit


def node_edit(node: str, change: Callable[[JsonObject], None]) -> Edit:
    """Make an edit of a node; *change* may do what it likes to a copy of it."""

    def edit(before: Situation) -> Situation:
        nodes = []
        for item in before.view.nodes:
            if item["metadata"]["name"] == node:
                body = _copied(item)
                change(body)
                nodes.append(body)
            else:
                nodes.append(item)
        return Situation(before.pod, replace(before.view, nodes=tuple(nodes)))

    return edit


def with_claim(before: Situation, claim: JsonObject) -> Situation:
    """Put *claim* in the place of the one of its name."""
    claims = {**before.view.claims, key_of(claim): claim}
    return Situation(before.pod, replace(before.view, claims=claims))


def _copied(item: JsonObject) -> JsonObject:
    """Copy the maps and lists of *item*."""
    return {key: _copy(value) for key, value in item.items()}


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copy(each) for each in value]
    return value
