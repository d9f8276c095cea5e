"""The metrics that the programs export, with their labels, read from the very objects that do it.

A scrape of a quiet program shows names only, since labels come with values. So registries are made
of the real parts, without running anything; `test_running` compares the names with those of
running programs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from dra.metrics import Metrics as ClaimMetrics
from extender import figures
from extender.metrics import Metrics as ExtenderMetrics
from extender.state.feeding import StateMetrics
from hami.deviceconfig import NvidiaConfig
from hami.monitor.haminames import NEW
from hami.monitor.metrics import FAMILIES
from hami.plugin.configfile import ConfigFiles, NodeConfigKeeper
from hami.plugin.current import CurrentOffer
from hami.plugin.figures import OfferCollector
from kube.configfile import FileFigures
from kube.probes import ProbeServer
from tests.webhook.quotaworld import World
from webhook.facts import ClusterFacts
from webhook.metrics import Metrics as WebhookMetrics
from webhook.mode import _gauge
from webhook.quotafigures import QuotaFigures
from webhook.waitingfigures import WaitingFigures

DEVICE: Final = ("node", "device_uuid", "device_index", "device_type", "zone")
POD: Final = ("namespace", "node", "pod", "container_index", "device_uuid", "zone")
INSTANCE: Final = (
    *("node", "device_uuid", "device_index", "mig_uuid", "profile", "gpu_instance_id"),
    *("compute_instance_id", "placement_start", "placement_size", "zone"),
)
HAMI_OF_EXTENDER: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    *((each.name, each.help, (*DEVICE, *each.labels)) for each in figures._DEVICE_FAMILIES),
    ("hami_node_gpu_mig_instance_info", "An instance that was made.", INSTANCE),
    (
        "hami_resource_quota_used",
        "What a quota counts.",
        ("namespace", "quota_name", "limit", "zone"),
    ),
    ("hami_resource_quota_limit", "What a quota allows.", ("namespace", "quota_name", "zone")),
    *((name, text, POD) for name, text, _ in figures._POD_FAMILIES),
)
"""They are written as text, piece by piece; `test_figures` of the extender has their labels."""


@dataclass(frozen=True, slots=True)
class Exported:
    """One metric."""

    name: str
    """Of the family: that of a counter is without `_total`."""
    kind: str
    text: str
    labels: frozenset[str]

    def series(self) -> dict[str, frozenset[str]]:
        """Return the names that queries use, with the labels of each."""
        if self.kind == "counter":
            return {f"{self.name}_total": self.labels}
        if self.kind == "histogram":
            return {
                f"{self.name}_bucket": self.labels | {"le"},
                f"{self.name}_sum": self.labels,
                f"{self.name}_count": self.labels,
            }
        return {self.name: self.labels}


def read(registry: CollectorRegistry) -> Iterator[Exported]:
    """Yield what is in *registry*."""
    for collector in tuple(registry._collector_to_names):
        if isinstance(collector, MetricWrapperBase):
            labels = frozenset(collector._labelnames)
            kind, text = str(collector._type), collector._documentation
            yield Exported(collector._name, kind, text, labels)
        else:
            for family in collector.collect():
                labels = frozenset(_labels(family))
                yield Exported(family.name, family.type, family.documentation, labels)


def _labels(family: Any) -> Iterable[str]:
    return tuple(getattr(family, "_labelnames", ()))


def _conditions(registry: CollectorRegistry) -> None:
    """Register what a program adds that serves its probes by `kube.probes`."""
    check = {"any": lambda: None}
    ProbeServer("127.0.0.1", 0, {}, ready_checks=check, registry=registry).stop()


def _monitor() -> Iterator[Exported]:
    for name, text, labels in FAMILIES:
        yield Exported(name, "gauge", text, frozenset(labels))
    for name, text, labels in NEW:
        yield Exported(name, "gauge", text, frozenset(labels) | {"zone"})


def claim_agent() -> list[Exported]:
    """Return those of a node agent whose node serves claims."""
    metrics = ClaimMetrics()
    metrics.show_grants(dict, lambda: None)
    metrics.show_offer(dict, tuple, dict)
    _conditions(metrics.registry)
    return [*read(metrics.registry), *_monitor()]


def card_agent() -> list[Exported]:
    """Return those of a node agent whose node serves the device plugin."""
    registry = CollectorRegistry()
    keeper = NodeConfigKeeper(ConfigFiles(base=NvidiaConfig()), node_name="node-1")
    current = CurrentOffer(keeper, lambda: None)
    registry.register(OfferCollector(current, lambda: None))
    registry.register(FileFigures(tuple))
    _conditions(registry)
    return [*read(registry), *_monitor()]


def webhook() -> list[Exported]:
    """Return those of the webhook."""
    registry = WebhookMetrics().registry
    replica, nobody = World().replica(), cast("Any", _Nobody())
    _gauge(registry)
    registry.register(QuotaFigures(replica.check, nobody))
    registry.register(WaitingFigures(nobody, replica.prices))
    registry.register(FileFigures(tuple))
    _conditions(registry)
    return list(read(registry))


def extender() -> list[Exported]:
    """Return those of the scheduler extender."""
    metrics = ExtenderMetrics()
    StateMetrics(metrics.registry)
    metrics.registry.register(FileFigures(tuple))
    hami = [Exported(n, "gauge", text, frozenset(s)) for n, text, s in HAMI_OF_EXTENDER]
    return [*read(metrics.registry), *hami]


PROGRAMS: Final[Mapping[str, Callable[[], list[Exported]]]] = {
    "node agent, claims": claim_agent,
    "node agent, device plugin": card_agent,
    "webhook": webhook,
    "scheduler extender": extender,
}


@cache
def series() -> Mapping[str, frozenset[str]]:
    """Return every name that a query may use, with the labels that all who export it give it."""
    found: dict[str, frozenset[str]] = {}
    for metrics in PROGRAMS.values():
        for each in metrics():
            for name, labels in each.series().items():
                found[name] = found.get(name, labels) & labels
    return found


class _Nobody:
    """A cluster in which nothing is."""

    def namespaces_with_quotas(self) -> frozenset[str]:
        return frozenset()

    def namespaces_with_work(self) -> frozenset[str]:
        return frozenset()

    def facts(self) -> ClusterFacts:
        return ClusterFacts()
