"""Choose a node for a pod together with the devices of its claims; pure, no API calls.

Nodes are tried in the order of their names. Of those that can serve all claims the one with the
highest rank of alternatives wins, as the scheduler scores `firstAvailable`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kube.objects import JsonObject, ObjectKey
from sim.scheduler.allocator import Allocator, Cluster, Outcome
from sim.scheduler.extended import Extended, asked_of_classes, extended
from sim.scheduler.nodefilter import unfit
from sim.scheduler.nodes import parse_node, selects
from sim.scheduler.podclaims import PodClaims, allocation_of, claims_of
from sim.scheduler.usage import Usage, usage_of
from sim.scheduler.verdicts import DeviceVerdict

OTHER_NODE = "resourceclaim not available on the node"
NO_DEVICES = "cannot allocate all claims"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The cluster at one moment; what the scheduler itself has written is in it already."""

    nodes: tuple[JsonObject, ...]
    pods: Mapping[ObjectKey, JsonObject]
    claims: Mapping[ObjectKey, JsonObject]
    slices: tuple[JsonObject, ...]
    classes: Mapping[str, JsonObject]
    rules: tuple[JsonObject, ...] = ()
    """DeviceTaintRules."""
    left_to_extenders: frozenset[str] = frozenset()
    """Extended resources that this scheduler does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A node with one allocation for each pending claim."""

    node: str
    claims: PodClaims
    allocations: tuple[JsonObject, ...]
    """Those of the pending claims, and last that of the claim for extended resources."""
    extended: Extended | None = None
    """The claim that is to be made first, if the pod needs one there."""
    score: int = 0
    """Grows with how early the chosen alternatives stand in their requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All nodes that could serve a pod, in the order in which they are tried, and the others."""

    placed: tuple[Placed, ...]
    claims: PodClaims
    refusals: Mapping[str, str]
    verdicts: tuple[DeviceVerdict, ...] = ()

    def best(self) -> Placed | None:
        """Return the first of the nodes with the highest score."""
        return max(self.placed, key=lambda each: each.score, default=None)

    def unplaced(self) -> "Unplaced":
        """Say why there is no node, where there is none."""
        stranded = self.claims.fresh() if OTHER_NODE in self.refusals.values() else ()
        return Unplaced(refusals=self.refusals, verdicts=self.verdicts, stranded=stranded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """Why no node was found."""

    refusals: Mapping[str, str]
    """Per node."""
    fatal: str = ""
    """What stops the pod everywhere, whatever the nodes offer."""
    code: str = ""
    verdicts: tuple[DeviceVerdict, ...] = ()
    stranded: tuple[JsonObject, ...] = ()
    """Allocated claims that keep the pod from some node and that no pod has reserved."""


def place(
    pod: JsonObject, view: View, allocator: Allocator, *, usage: Usage | None = None
) -> Placed | Unplaced:
    """Find a node for *pod*; raises `WaitingError` while a claim is not there.

    *usage* is what the claims of *view* hold, if the caller knows it already.
    """
    found = search(pod, view, allocator, usage=usage)
    if isinstance(found, Unplaced):
        return found
    return found.best() or found.unplaced()


def search(
    pod: JsonObject, view: View, allocator: Allocator, *, usage: Usage | None = None
) -> Found | Unplaced:
    """Try every node for *pod*, as `place` does; `Unplaced` is what stops it everywhere."""
    claims = claims_of(pod, view.claims)
    held = usage_of(view.claims.values()) if usage is None else usage
    cluster = Cluster(slices=view.slices, classes=view.classes, usage=held, rules=view.rules)
    by_resource = (
        asked_of_classes(pod, view.classes) if allocator.features.extended_resources else {}
    )
    uncounted = view.left_to_extenders
    refusals: dict[str, str] = {}
    verdicts: list[DeviceVerdict] = []
    placed: list[Placed] = []
    for node in sorted(view.nodes, key=lambda item: str(item["metadata"]["name"])):
        name = node["metadata"]["name"]
        refusal = unfit(pod, node, view.pods.values(), by_claims=by_resource, uncounted=uncounted)
        refusal = refusal or _unreachable(claims, node)
        if refusal:
            refusals[name] = refusal
            continue
        more = extended(pod, node, by_resource)
        wanted = (*claims.pending, more.claim) if more else claims.pending
        result = allocator.allocate(wanted, node=node, cluster=cluster)
        if result.outcome is Outcome.FATAL:
            return Unplaced(
                refusals=refusals, fatal=result.message, code=result.code, verdicts=result.verdicts
            )
        if result.outcome is not Outcome.ALLOCATED:
            verdicts += result.verdicts
            refusals[name] = result.message or NO_DEVICES
            continue
        placed.append(
            Placed(
                node=name,
                claims=claims,
                allocations=result.allocations,
                extended=more,
                score=result.score,
            )
        )
    return Found(placed=tuple(placed), claims=claims, refusals=refusals, verdicts=tuple(verdicts))


def _unreachable(claims: PodClaims, node: JsonObject) -> str:
    here = parse_node(node)
    for claim in claims.allocated:
        selector = (allocation_of(claim) or {}).get("nodeSelector")
        if selector is not None and not selects(selector, here):
            return OTHER_NODE
    return ""
