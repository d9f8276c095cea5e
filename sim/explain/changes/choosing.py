"""Choose what to tell: the smallest changes of different kinds that fit in the whole cluster."""

from collections.abc import Iterator
from dataclasses import replace

from sim.explain.case import Case
from sim.explain.changes.capacity import lower_capacity, rename_capacity
from sim.explain.changes.holders import free_claims, release_own
from sim.explain.changes.nodes import change_nodes
from sim.explain.changes.proposal import Proposal
from sim.explain.changes.requests import change_requests
from sim.explain.changes.trying import Trier
from sim.explain.model import Change
from sim.explain.rules import Rules
from sim.scheduler.placement import Unplaced

_TOLD = 2
_TRIES_MAX = 400
"""Bounds the time where nothing helps."""
_NODES_MAX = 12
"""How many nodes stand for all of them where something stops the pod everywhere."""


def smallest_changes(case: Case, found: Unplaced, rules: Rules) -> tuple[Change, ...]:
    """Return the best verified changes, none of them twice in kind."""
    trier = Trier(case, rules)
    anywhere = trier.nodes_with_slices(_NODES_MAX)
    fitting: dict[str, Proposal] = {}
    for proposal in _proposals(case, found, anywhere):
        known = fitting.get(proposal.change.code)
        if known is not None and known.rank <= proposal.rank:
            continue
        if trier.tries > _TRIES_MAX:
            break
        if trier.fits_on(proposal):
            fitting[proposal.change.code] = proposal
    told: list[Change] = []
    for proposal in sorted(fitting.values(), key=lambda it: it.rank):
        node = trier.fits(proposal)
        if node:
            told.append(replace(proposal.change, node=node))
        if len(told) == _TOLD:
            break
    return tuple(told)


def _proposals(case: Case, found: Unplaced, anywhere: tuple[str, ...]) -> Iterator[Proposal]:
    yield from rename_capacity(case, found)
    yield from change_nodes(case, found)
    yield from lower_capacity(case, found)
    yield from change_requests(case, found, anywhere)
    yield from free_claims(case, found)
    yield from release_own(case, found)
