"""What the extender counts of itself; HAMi's figures of devices are in `extender.figures`.

The outcome counters bear HAMi's names and labels (`pkg/metrics` after v2.10), so that dashboards
stay. Labels have few values that are known beforehand: nothing that a user writes becomes one.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_FAST_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0)
_BIND_S: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0)


class Result(StrEnum):
    """How a request ended."""

    CHOSEN = "chosen"
    UNFIT = "unfit"
    NOT_ASKED = "not_asked"
    SCORED = "scored"
    BOUND = "bound"
    REFITTED = "refitted"
    REFUSED = "refused"
    """Against a rule: a stale binding, an unknown caller, a follower."""
    FAILED = "failed"
    """Our own failure, or the API server's."""
    UNREADABLE = "unreadable"


class Phase(StrEnum):
    """Where an allocation can fail; the values of HAMi's label."""

    FILTER = "filter"
    BIND = "bind"
    REFIT = "refit"


@dataclass(slots=True)
class Outcome:
    """Says how a request ended; failed unless somebody says otherwise."""

    result: Result = Result.FAILED


class RouteMetrics:
    """Counts and times the requests to one path."""

    def __init__(self, requests: Counter, seconds: Histogram, path: str) -> None:
        self._counts = {result: requests.labels(path, result.value) for result in Result}
        self._seconds = seconds.labels(path)

    @contextmanager
    def measure(self) -> Iterator[Outcome]:
        """Time the block and count its outcome."""
        outcome = Outcome()
        began = time.perf_counter()
        try:
            yield outcome
        finally:
            self.note(outcome.result, time.perf_counter() - began)

    def note(self, result: Result, seconds: float) -> None:
        """Count one request."""
        self._seconds.observe(seconds)
        self._counts[result].inc()


class Metrics:
    """All metrics of the process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "gpuslice_extender_requests_total",
            "Requests, by path and result.",
            ["path", "result"],
            registry=registry,
        )
        self._fast = Histogram(
            "gpuslice_extender_request_seconds",
            "Time from a request's body to its answer.",
            ["path"],
            buckets=_FAST_S,
            registry=registry,
        )
        self._slow = Histogram(
            "gpuslice_extender_binding_seconds",
            "Time from a body to its answer, for paths that ask the API server.",
            ["path"],
            buckets=_BIND_S,
            registry=registry,
        )
        self.lock_wait_seconds = Histogram(
            "gpuslice_extender_node_lock_wait_seconds",
            "Time for which bindings waited for the lock of their node.",
            buckets=_BIND_S,
            registry=registry,
        )
        self.lock_waiting = Gauge(
            "gpuslice_extender_node_lock_waiting",
            "Bindings that wait for the lock of their node.",
            registry=registry,
        )
        self.locks_broken = Counter(
            "gpuslice_extender_node_locks_broken_total",
            "Locks taken over from owners that were gone, done or too old.",
            ["reason"],
            registry=registry,
        )
        self.api_calls = Counter(
            "gpuslice_extender_api_calls_total",
            "Requests to the API server on behalf of single pods, without Events.",
            ["call"],
            registry=registry,
        )
        self.events = Counter(
            "gpuslice_extender_events_total",
            "Events that were to be written, by reason.",
            ["reason"],
            registry=registry,
        )
        self.is_leader = Gauge(
            "gpuslice_extender_is_leader", "Whether this replica decides.", registry=registry
        )
        self.leader_changes = Counter(
            "gpuslice_extender_leader_changes_total",
            "How often this replica began or ceased to decide.",
            registry=registry,
        )
        labels = ["phase", "device_type", "failure_reason"]
        self.allocations = Counter(
            "hami_scheduler_allocations_total",
            "Pods whose devices were decided or written, by vendor.",
            ["phase", "device_type"],
            registry=registry,
        )
        self.allocation_failures = Counter(
            "hami_scheduler_allocation_failures_total",
            "Decisions and bindings that failed.",
            labels,
            registry=registry,
        )
        self.bind_rollbacks = Counter(
            "hami_scheduler_bind_rollbacks_total",
            "Bindings that were taken back.",
            labels,
            registry=registry,
        )

    def route(self, path: str) -> RouteMetrics:
        """Return the metrics of a *path* that is answered from memory."""
        return RouteMetrics(self._requests, self._fast, path)

    def slow_route(self, path: str) -> RouteMetrics:
        """Return the metrics of a *path* whose answers wait for the API server."""
        return RouteMetrics(self._requests, self._slow, path)
