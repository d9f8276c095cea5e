"""What waits for GPUs, by namespace, from the copy of the cluster that every replica keeps.

Kubernetes tells that a pod waits and not for what. Claims count that Kubernetes made for a pod and
that have no devices yet: one that somebody made by hand waits for whoever names it, which is its
purpose. Amounts are the most that could be booked, as for quotas.

What an object costs is read once: thousands may wait, at every scrape, while reviews are to be
answered.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hami.quota import Cost, is_over
from kube.objects import JsonObject
from webhook.facts import ClusterFacts
from webhook.quotausage import Prices

_LABELS: Final = ("namespace",)


class Waiters(Protocol):
    """What is asked of the view of the cluster."""

    def facts(self) -> ClusterFacts:
        """Return what GPUs there are."""

    def namespaces_with_work(self) -> frozenset[str]:
        """Return the namespaces that have pods or claims."""

    def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the pods that ask for devices."""

    def claims(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return the claims for our devices."""


@dataclass(slots=True)
class _Waiting:
    pods: int = 0
    claims: int = 0
    since_s: float | None = None
    amounts: dict[str, int] = field(default_factory=dict)

    def add(self, item: JsonObject, cost: Cost) -> None:
        for name, amount in cost.amounts.items():
            self.amounts[name] = self.amounts.get(name, 0) + amount
        made_s = _made_s(item)
        if made_s is not None:
            self.since_s = made_s if self.since_s is None else min(self.since_s, made_s)


_Known = dict[int, tuple[JsonObject, Cost]]
"""By the object's identity, which is its own as long as it is kept here."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """What was read of objects as long as these *facts* hold."""

    facts: ClusterFacts
    known: _Known

    def of(
        self, item: JsonObject, before: _Known, price: Callable[[JsonObject, ClusterFacts], Cost]
    ) -> Cost:
        """Return the cost of *item*: as it was *before*, if the view shows the same object."""
        found = before.get(id(item)) or (item, price(item, self.facts))
        self.known[id(item)] = found
        return found[1]


class WaitingFigures(Collector):
    """Computed when they are asked for."""

    def __init__(self, view: Waiters, prices: Prices) -> None:
        self._view, self._prices = view, prices
        self._costs = _Costs(view.facts(), {})

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges; a namespace where nothing waits has none."""
        found = dict(self._found())
        nvidia = self._prices.names[0]
        yield _family(
            "gpuslice_waiting_pods",
            "Pods that ask for devices, or did so before their claims, and have no node.",
            found,
            lambda each: each.pods,
        )
        yield _family(
            "gpuslice_waiting_claims",
            "Claims of pods that have no devices yet.",
            found,
            lambda each: each.claims,
        )
        yield _family(
            "gpuslice_waiting_since_timestamp_seconds",
            "When the oldest pod or claim was made that waits.",
            found,
            lambda each: each.since_s,
        )
        for name, text, key in (
            (
                "gpuslice_waiting_memory_mib",
                "Memory that what waits asks for, in MiB.",
                nvidia.memory,
            ),
            (
                "gpuslice_waiting_cores_percent",
                "Compute that what waits asks for, in percent.",
                nvidia.cores,
            ),
            ("gpuslice_waiting_devices", "GPUs or shares that what waits asks for.", nvidia.count),
        ):
            yield _family(name, text, found, partial(_amount, key))

    def _found(self) -> Iterator[tuple[str, _Waiting]]:
        facts = self._view.facts()
        # Two may ask at a time: each has costs of its own, and either's may be kept.
        before = self._costs.known if self._costs.facts is facts else {}
        costs = _Costs(facts, {})
        for namespace in sorted(self._view.namespaces_with_work()):
            found = _Waiting()
            for pod in self._view.pods(namespace):
                if _has_no_node(pod):
                    found.pods += 1
                    found.add(pod, costs.of(pod, before, self._of_pod))
            for claim in self._view.claims(namespace):
                if _has_no_devices(claim):
                    found.claims += 1
                    found.add(claim, costs.of(claim, before, self._prices.of_claim))
            if found.pods or found.claims:
                yield namespace, found
        self._costs = costs

    def _of_pod(self, pod: JsonObject, facts: ClusterFacts) -> Cost:
        return self._prices.of_pod(pod, facts).direct


def _family(
    name: str,
    text: str,
    found: Mapping[str, _Waiting],
    value_of: Callable[[_Waiting], float | None],
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=_LABELS)
    for namespace, each in found.items():
        value = value_of(each)
        if value is not None:
            family.add_metric([namespace], value)
    return family


def _amount(key: str, waiting: _Waiting) -> float:
    return waiting.amounts.get(key, 0)


def _has_no_node(pod: JsonObject) -> bool:
    is_leaving = "deletionTimestamp" in pod["metadata"]
    return not (is_leaving or is_over(pod) or pod["spec"].get("nodeName"))


def _has_no_devices(claim: JsonObject) -> bool:
    metadata: Mapping[str, Any] = claim["metadata"]
    owners = metadata.get("ownerReferences") or ()
    is_of_pod = any(each.get("kind") == "Pod" for each in owners)
    return (
        is_of_pod and "deletionTimestamp" not in metadata and not claim["status"].get("allocation")
    )


def _made_s(item: JsonObject) -> float | None:
    try:
        return datetime.fromisoformat(str(item["metadata"]["creationTimestamp"])).timestamp()
    except (KeyError, ValueError):
        return None
