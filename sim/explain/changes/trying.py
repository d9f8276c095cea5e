"""Try a change by asking the scheduler's rules again, on one node or on all."""

from collections.abc import Mapping
from dataclasses import replace

from kube.objects import JsonObject, ObjectKey, key_of
from kube.quantity import QuantityError
from sim.explain.answers import Answers
from sim.explain.case import Case
from sim.explain.changes.proposal import Edit, Proposal, Situation
from sim.explain.rules import Rules
from sim.scheduler.allocator import Allocator
from sim.scheduler.placement import Placed, place
from sim.scheduler.podclaims import WaitingError, allocation_of
from sim.scheduler.usage import Usage

_PoolKey = tuple[str, str]


class Trier:
    """Tries changes of one case; keeps what it has cut out for single nodes."""

    def __init__(self, case: Case, rules: Rules) -> None:
        self.tries = 0
        self._case = case
        self._rules = rules
        self._answers = Answers()
        self._slices = _SlicesByNode(case.view.slices)
        self._holding = _claims_by_pool(case.view.claims)
        self._own = {key_of(claim) for claim in (*case.claims.pending, *case.claims.allocated)}
        self._cut: dict[str, tuple[Situation, Allocator]] = {}

    def nodes_with_slices(self, most: int) -> tuple[str, ...]:
        """Return up to *most* nodes that some device is published for."""
        return tuple(name for name in sorted(self._case.nodes) if self._slices.of(name))[:most]

    def fits_on(self, proposal: Proposal) -> str:
        """Return the first node of *proposal* where it helps when there is no other, or nothing."""
        for node in proposal.nodes:
            situation, allocator = self._only(node)
            if self._placed(proposal.edit, situation, allocator, None):
                return node
        return ""

    def fits(self, proposal: Proposal) -> str:
        """Return the node that would be chosen of all, or nothing."""
        whole = Situation(self._case.pod, self._case.view)
        usage = None if proposal.frees else self._case.cluster.usage
        return self._placed(proposal.edit, whole, self._case.allocator, usage)

    def _placed(
        self, edit: Edit, before: Situation, allocator: Allocator, usage: Usage | None
    ) -> str:
        self.tries += 1
        after = edit(before)
        try:
            found = place(after.pod, after.view, allocator, usage=usage)
        except (WaitingError, QuantityError):
            return ""
        return found.node if isinstance(found, Placed) else ""

    def _only(self, node: str) -> tuple[Situation, Allocator]:
        if node not in self._cut:
            allocator = self._rules.allocator(self._answers)
            self._cut[node] = (self._cut_out(node), allocator)
        return self._cut[node]

    def _cut_out(self, node: str) -> Situation:
        """Return the case with one node and all that bears on it."""
        view = self._case.view
        slices = self._slices.of(node)
        keys = set(self._own)
        for pool in {_pool_of(item) for item in slices}:
            keys |= self._holding.get(pool, set())
        return Situation(
            self._case.pod,
            replace(
                view,
                nodes=(self._case.nodes[node],),
                slices=slices,
                claims={key: view.claims[key] for key in view.claims if key in keys},
            ),
        )


class _SlicesByNode:
    """Finds the slices that decide about a node: its own, those of no node, and their pools'."""

    def __init__(self, slices: tuple[JsonObject, ...]) -> None:
        self._by_node: dict[str, list[JsonObject]] = {}
        self._by_pool: dict[_PoolKey, list[JsonObject]] = {}
        for item in slices:
            self._by_node.setdefault(item["spec"].get("nodeName") or "", []).append(item)
            self._by_pool.setdefault(_pool_of(item), []).append(item)

    def of(self, node: str) -> tuple[JsonObject, ...]:
        near = [*self._by_node.get(node, ()), *self._by_node.get("", ())]
        pools = dict.fromkeys(_pool_of(item) for item in near)
        return tuple(item for pool in pools for item in self._by_pool[pool])


def _pool_of(item: JsonObject) -> _PoolKey:
    return item["spec"]["driver"], item["spec"]["pool"]["name"]


def _claims_by_pool(
    claims: Mapping[ObjectKey, JsonObject],
) -> dict[_PoolKey, set[ObjectKey]]:
    found: dict[_PoolKey, set[ObjectKey]] = {}
    for key, claim in claims.items():
        devices = (allocation_of(claim) or {}).get("devices") or {}
        for result in devices.get("results") or ():
            found.setdefault((result["driver"], result["pool"]), set()).add(key)
    return found
