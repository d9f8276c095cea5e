"""What the objects of a namespace cost now: summed from them each time, never counted along.

A counter that is raised and lowered drifts with each failure between the two. Reading a pod costs
much more than adding, so what was read is kept for as long as the view shows the same object.

A pod that was translated counts by its claims. As long as one of them does not exist, the part of
the pod that asks for it counts instead, so that a pod admitted is sure of its room. A claim says
by an annotation and an owner which part it is made for; a false one only takes the room of that
part, and the true claim must then find room of its own.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu.refusal import Refusal
from hami import resources
from hami.deviceconfig import DeviceConfig
from hami.quota import (
    ALLOCATED,
    NOTHING,
    Cost,
    QuotaNames,
    allocated_mib,
    cost_of,
    ended_init_containers,
    is_over,
    total,
)
from hami.requests import ContainerRequest, Invalid, Valid
from kube.objects import JsonObject
from webhook.booking import Tariff, cost_of_claim, cost_of_spec
from webhook.facts import ClusterFacts
from webhook.ledger import Part, identity
from webhook.ownclaims import owner_of

ReadPod = Callable[[JsonObject], Sequence[ContainerRequest]]
"""Gives every container of a pod with what it still asks by resource keys."""
ExpectedTemplates = Callable[[JsonObject], Mapping[str, JsonObject] | Refusal]
"""Gives the claim specs by template name that a translated pod asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCost:
    """A pod's cost: what it asks by keys, and a part for each claim to be made."""

    direct: Cost = NOTHING
    parts: Mapping[str, Cost]
    """By the entry's name in `resourceClaims`."""

    @property
    def whole(self) -> Cost:
        """The cost of a pod without claims."""
        return self.direct + total(self.parts.values())


@dataclass(frozen=True, slots=True)
class _Kept:
    item: JsonObject
    cost: Any


class Prices:
    """Reads objects into costs."""

    def __init__(
        self,
        *,
        names: Sequence[QuotaNames],
        tariff: Tariff,
        read_pod: ReadPod,
        expected_templates: ExpectedTemplates,
    ) -> None:
        self.names = names
        self.tariff = tariff
        self._read_pod = read_pod
        self._expected_templates = expected_templates

    def of_requests(self, requests: Iterable[ContainerRequest], facts: ClusterFacts) -> Cost:
        """Return the cost of a new pod on HAMi's path."""
        return cost_of(requests, self.names, largest_mib=_largest(facts))

    def of_pod(self, pod: JsonObject, facts: ClusterFacts) -> PodCost:
        """Return the cost of *pod* as it is."""
        if is_over(pod):
            return PodCost(parts={})
        requests = self._read_pod(pod)
        direct = cost_of(
            requests,
            self.names,
            largest_mib=_largest(facts),
            ended=ended_init_containers(pod),
            allocated_mib=allocated_mib(pod, len(requests)),
        )
        parts = {
            name: self.of_spec(spec, facts) for name, spec in self._specs_by_entry(pod).items()
        }
        return PodCost(direct=direct, parts=parts)

    def of_new_pod(self, pod: JsonObject, facts: ClusterFacts) -> PodCost:
        """Return the cost of *pod* before it is stored: nothing it says of its state is true."""
        metadata = _mapping(pod.get("metadata"))
        annotations = {**_mapping(metadata.get("annotations"))}
        annotations.pop(ALLOCATED, None)
        bare = {**pod, "metadata": {**metadata, "annotations": annotations}, "status": {}}
        return self.of_pod(bare, facts)

    def of_claim(self, claim: JsonObject, facts: ClusterFacts) -> Cost:
        """Return the cost of *claim* as it is."""
        return cost_of_claim(claim, facts, self.tariff)

    def of_spec(self, spec: JsonObject, facts: ClusterFacts) -> Cost:
        """Return the most that a claim of *spec* can cost."""
        return cost_of_spec(spec, facts, self.tariff)

    def _specs_by_entry(self, pod: JsonObject) -> dict[str, JsonObject]:
        entries = list(template_entries(pod))
        if not entries:
            return {}
        templates = self._expected_templates(pod)
        if isinstance(templates, Refusal):
            # No template is made for such a pod; what it is given anyhow is checked as a claim.
            return {}
        return {name: templates[template] for name, template in entries if template in templates}


class Usage:
    """Sums up one namespace, remembering what it read of each object."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._facts: ClusterFacts | None = None
        self._pods: dict[str, _Kept] = {}
        self._claims: dict[str, _Kept] = {}

    def sum(
        self,
        *,
        pods: Iterable[JsonObject],
        claims: Iterable[JsonObject],
        facts: ClusterFacts,
        replaced: Collection[Part] = (),
    ) -> Cost:
        """Return the cost of all objects, without the parts that are *replaced* elsewhere."""
        if facts is not self._facts:
            self._facts, self._pods, self._claims = facts, {}, {}
        claims = tuple(claims)
        made = {part for claim in claims if (part := part_of(claim))}
        made.update(replaced)
        costs = self._costs(claims, self._claims, self._prices.of_claim, facts)
        self._claims = {uid: kept for uid, kept in costs if uid}
        found = [kept.cost for _, kept in costs]
        pod_costs = self._costs(pods, self._pods, self._prices.of_pod, facts)
        self._pods = {uid: kept for uid, kept in pod_costs if uid}
        for uid, kept in pod_costs:
            found.append(kept.cost.direct)
            found += [cost for name, cost in kept.cost.parts.items() if Part(uid, name) not in made]
        return total(found)

    @staticmethod
    def _costs(
        items: Iterable[JsonObject],
        known: Mapping[str, _Kept],
        price: Callable[[JsonObject, ClusterFacts], Any],
        facts: ClusterFacts,
    ) -> list[tuple[str, _Kept]]:
        found = []
        for item in items:
            uid, _ = identity(item)
            kept = known.get(uid)
            if kept is None or kept.item is not item:
                kept = _Kept(item, price(item, facts))
            found.append((uid, kept))
        return found


def pod_reader(config: DeviceConfig) -> ReadPod:
    """Return what reads the resource keys of pods that exist.

    A pod that came past admission may have annotations that would be refused; it asks all the
    same. What nobody can read asks nothing, as for HAMi's scheduler.
    """

    def read(pod: JsonObject) -> Sequence[ContainerRequest]:
        found = resources.read(pod, config, least_memory_mib=0)
        if isinstance(found, Invalid):
            found = resources.read({"spec": pod.get("spec")}, config, least_memory_mib=0)
        return found.requests if isinstance(found, Valid) else ()

    return read


def part_of(claim: JsonObject) -> Part | None:
    """Return the part of a pod that *claim* says it is made for."""
    owner = owner_of(claim)
    return None if owner is None else Part(owner.uid, owner.entry)


def template_entries(pod: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield name and template of the entries of *pod* that name a template."""
    entries = _mapping(pod.get("spec")).get("resourceClaims")
    yield from entries_in(entries if isinstance(entries, list) else ())


def entries_in(entries: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield name and template of those *entries* that name a template."""
    for entry in map(_mapping, entries):
        name, template = entry.get("name"), entry.get("resourceClaimTemplateName")
        if isinstance(name, str) and isinstance(template, str):
            yield name, template


def _largest(facts: ClusterFacts) -> int | None:
    return max(facts.gpus_by_memory_mib, default=None)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
