"""What the plugin counts, and what it computes when asked.

Calls are counted by outcome (`ok` or the refusal's code). What is granted is not counted at all:
it is summed over the prepared claims at each scrape, so it cannot drift.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from dra.devicehealth import DeviceHealth
from dra.figures import OfferedCollector
from dra.record import PreparedClaim
from gpu.model import Inventory
from kube.objects import JsonObject

# Kubelet's own histogram begins at 0.1 s: what happens below is only seen here.
_BUCKETS_S = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0)


@dataclass(slots=True)
class Outcome:
    """How a call ended; the caller sets *code* when it did not go well."""

    code: str = "ok"


class Call:
    """Counts and times one kind of call."""

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        self.name = name
        self._count = Counter(
            f"gpuslice_{name}_total",
            f"Claims handled by {name}, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self._seconds = Histogram(
            f"gpuslice_{name}_seconds",
            f"Time that {name} took for one claim.",
            buckets=_BUCKETS_S,
            registry=registry,
        )

    @contextmanager
    def measure(self) -> Iterator[Outcome]:
        """Time the block and count its outcome."""
        outcome = Outcome()
        began = time.perf_counter()
        yield outcome
        self._seconds.observe(time.perf_counter() - began)
        self._count.labels(outcome.code).inc()


class Metrics:
    """All metrics of the process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.prepare = Call("prepare", self.registry)
        self.unprepare = Call("unprepare", self.registry)

    def show_grants(
        self,
        claims: Callable[[], Mapping[str, PreparedClaim]],
        inventory: Callable[[], Inventory | None],
    ) -> None:
        """Export what is granted of each GPU, computed at each scrape."""
        self.registry.register(GrantCollector(claims, inventory))

    def show_offer(
        self,
        devices: Callable[[], Mapping[str, JsonObject]],
        health: Callable[[], Iterable[DeviceHealth]],
        claims: Callable[[], Mapping[str, PreparedClaim]],
    ) -> None:
        """Export what is offered, and whether it is well, computed at each scrape."""
        self.registry.register(OfferedCollector(devices, health, claims))


class GrantCollector(Collector):
    """Sums over prepared claims."""

    def __init__(
        self,
        claims: Callable[[], Mapping[str, PreparedClaim]],
        inventory: Callable[[], Inventory | None],
    ) -> None:
        self._claims = claims
        self._inventory = inventory

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the gauges as of now."""
        claims = list(self._claims().values())
        yield GaugeMetricFamily("gpuslice_prepared_claims", "Claims prepared.", value=len(claims))
        yield self._totals()
        yield from _granted(claims)

    def _totals(self) -> GaugeMetricFamily:
        total = GaugeMetricFamily(
            "gpuslice_gpu_memory_mib", "Memory of the GPU in MiB.", labels=["uuid"]
        )
        inventory = self._inventory()
        for gpu in inventory.gpus if inventory else ():
            if gpu.memory_mib is not None:
                total.add_metric([gpu.uuid], gpu.memory_mib)
        return total


def _granted(claims: list[PreparedClaim]) -> Iterator[GaugeMetricFamily]:
    labels = ["uuid", "namespace", "claim", "request", "share_id"]
    memory = GaugeMetricFamily(
        "gpuslice_granted_memory_mib", "Memory granted to a claim, in MiB.", labels=labels
    )
    cores = GaugeMetricFamily(
        "gpuslice_granted_cores_percent", "Compute granted to a claim, in percent.", labels=labels
    )
    shares = GaugeMetricFamily(
        "gpuslice_granted_shares", "Shares of the GPU that a claim holds.", labels=labels
    )
    for claim in claims:
        for device in claim.devices:
            if device.admin:
                continue
            values = [
                device.uuid, claim.namespace, claim.name, device.request, device.share_id or ""
            ]  # fmt: skip
            memory.add_metric(values, device.memory_mib)
            cores.add_metric(values, device.cores_percent)
            shares.add_metric(values, device.shares)
    yield from (memory, cores, shares)
