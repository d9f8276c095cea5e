"""Decide which devices the claims of a pod get on one node: the same inputs, the same answer.

This is the structured allocator as one function over Kubernetes objects. Share ids are random
in Kubernetes; here their source is an argument.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from uuid import uuid4

from kube.objects import JsonObject
from kube.quantity import QuantityError
from sim.scheduler import cel
from sim.scheduler.allocation import build
from sim.scheduler.attempt import Attempt
from sim.scheduler.checking import check
from sim.scheduler.devices import DeviceId, SliceReader
from sim.scheduler.errors import FatalError, NodeError
from sim.scheduler.features import Features, features_of
from sim.scheduler.nodes import Node, parse_node
from sim.scheduler.pools import Pool, SliceIndex
from sim.scheduler.requests import Claim, Wanted, parse_claim
from sim.scheduler.rules import tainted
from sim.scheduler.scene import Matches, Scene
from sim.scheduler.search import Search
from sim.scheduler.selecting import Selection
from sim.scheduler.usage import Usage
from sim.scheduler.verdicts import DeviceVerdict, Notebook, Refused

_RANK_MAX = 8
"""What the first alternative of a prioritized request is worth."""


class Outcome(Enum):
    """How an attempt on one node ended."""

    ALLOCATED = "allocated"
    NONE = "none"
    NODE_ERROR = "node"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What all nodes have in common at one moment."""

    slices: Sequence[JsonObject]
    classes: Mapping[str, JsonObject]
    usage: Usage
    rules: Sequence[JsonObject] = ()
    """DeviceTaintRules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationResult:
    """The answer for one node; *allocations* has one entry per claim when there is one."""

    outcome: Outcome
    allocations: tuple[JsonObject, ...] = ()
    code: str = ""
    message: str = ""
    verdicts: tuple[DeviceVerdict, ...] = ()
    score: int = 0
    """Grows with how early the chosen alternatives stand in their requests."""
    calls: int = 0


_Published = tuple[Sequence[JsonObject], Sequence[JsonObject]]
"""Slices and rules."""


class Allocator:
    """Allocates by the rules of one release; keeps what it parsed between calls."""

    def __init__(
        self,
        profile: str,
        *,
        gates: Mapping[str, bool] | None = None,
        new_share_id: Callable[[], str] | None = None,
        matches: Matches = cel.matches,
    ) -> None:
        self.features: Features = features_of(profile, gates)
        self._new_share_id = new_share_id or (lambda: str(uuid4()))
        self._matches = matches
        self._reader = SliceReader(self.features)
        self._indexed: tuple[_Published, SliceIndex] | None = None

    def allocate(
        self, claims: Sequence[JsonObject], *, node: JsonObject, cluster: Cluster
    ) -> AllocationResult:
        """Allocate *claims*, which have no devices yet, on *node*; never raises for content."""
        here = parse_node(node)
        notebook = Notebook(here.name)
        try:
            return self._allocate(self._scene(claims, here, cluster), notebook)
        except FatalError as error:
            return _failed(Outcome.FATAL, error.code, error, notebook)
        except QuantityError as error:
            return _failed(Outcome.FATAL, "ClaimMalformed", error, notebook)
        except NodeError as error:
            return _failed(Outcome.NODE_ERROR, "NodeError", error, notebook)

    def pools(self, node: JsonObject, cluster: Cluster) -> tuple[Pool, ...]:
        """Return what *node* can reach, in the order in which it is searched."""
        return self._index(cluster).pools(parse_node(node))

    def _scene(self, claims: Iterable[JsonObject], node: Node, cluster: Cluster) -> Scene:
        return Scene(
            node=node,
            pools=self._index(cluster).pools(node),
            classes=cluster.classes,
            usage=cluster.usage,
            features=self.features,
            claims=tuple(parse_claim(claim) for claim in claims),
            matches=self._matches,
        )

    def _index(self, cluster: Cluster) -> SliceIndex:
        # All nodes of one attempt have the same tuples, which nobody can change meanwhile.
        slices, rules = cluster.slices, cluster.rules
        known = self._indexed
        if known is None or known[0][0] is not slices or known[0][1] is not rules:
            parts = tainted(self._reader.read(slices), rules, self.features)
            known = ((tuple(slices), tuple(rules)), SliceIndex(parts, self.features))
            self._indexed = known
        return known[1]

    def _allocate(self, scene: Scene, notebook: Notebook) -> AllocationResult:
        selection = Selection(scene)
        needs = check(scene, selection, notebook)
        attempt = Attempt(scene, self._new_share_id)
        search = Search(scene, needs, selection=selection, attempt=attempt, notebook=notebook)
        if not search.run():
            return _not_found(scene, notebook, search.calls)
        return AllocationResult(
            outcome=Outcome.ALLOCATED,
            allocations=tuple(
                build(claim, attempt.results[index], _chosen(claim, index, search), scene)
                for index, claim in enumerate(scene.claims)
            ),
            verdicts=notebook.verdicts(),
            score=sum(_RANK_MAX - rank for rank in search.chosen.values()),
            calls=search.calls,
        )


def _chosen(claim: Claim, index: int, search: Search) -> list[Wanted]:
    return [
        request.alternatives[search.chosen.get((index, position), 0)]
        for position, request in enumerate(claim.requests)
    ]


def _not_found(scene: Scene, notebook: Notebook, calls: int) -> AllocationResult:
    invalid = [pool for pool in scene.pools if pool.invalid]
    for pool in scene.pools:
        refused = _pool_refusal(pool)
        if refused is None:
            continue
        for claim in scene.claims:
            notebook.note(claim.key, "", DeviceId(pool.driver, pool.name, ""), refused)
    message = ", ".join(f"{it.driver}/{it.name}: {it.invalid}" for it in invalid)
    return AllocationResult(
        outcome=Outcome.NODE_ERROR if invalid else Outcome.NONE,
        code="PoolInvalid" if invalid else "",
        message=f"invalid resource pools were encountered: {message}" if invalid else "",
        verdicts=notebook.verdicts(),
        calls=calls,
    )


def _pool_refusal(pool: Pool) -> Refused | None:
    if pool.incomplete:
        return Refused("PoolIncomplete", "", "its slices are currently being updated")
    return Refused("PoolInvalid", pool.invalid) if pool.invalid else None


def _failed(outcome: Outcome, code: str, error: Exception, notebook: Notebook) -> AllocationResult:
    return AllocationResult(
        outcome=outcome, code=code, message=str(error), verdicts=notebook.verdicts()
    )
