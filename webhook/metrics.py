"""What the webhook counts.

Labels have few values that are known beforehand: nothing that a user writes becomes one.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

# One review takes below a millisecond; the API server waits for ten seconds.
_BUCKETS_S = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0)


class Result(StrEnum):
    """How a request ended."""

    ALLOWED = "allowed"
    PATCHED = "patched"
    DENIED = "denied"
    FAILED = "failed"
    """Our own failure: an exception, or an answer of code 500."""
    LATE = "late"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    CUT_OFF = "cut_off"
    """The client went away, or stopped sending."""


@dataclass(slots=True)
class Outcome:
    """Says how a request ended; failed unless somebody says otherwise."""

    result: Result = Result.FAILED


class EndpointMetrics:
    """Counts and times the requests to one path."""

    def __init__(self, reviews: Counter, seconds: Histogram, path: str) -> None:
        self._counts = {result: reviews.labels(path, result.value) for result in Result}
        self._seconds = seconds.labels(path)

    @contextmanager
    def measure(self) -> Iterator[Outcome]:
        """Time the block and count its outcome."""
        outcome = Outcome()
        began = time.perf_counter()
        try:
            yield outcome
        finally:
            self._seconds.observe(time.perf_counter() - began)
            self._counts[outcome.result].inc()


class Metrics:
    """All metrics of the process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reviews = Counter(
            "gpuslice_webhook_reviews_total",
            "Requests to the webhook, by path and result.",
            ["path", "result"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "gpuslice_webhook_review_seconds",
            "Time from a request's headers to its answer.",
            ["path"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "gpuslice_webhook_reviews_in_flight",
            "Requests that are being answered.",
            registry=self.registry,
        )
        self._refusals = Counter(
            "gpuslice_webhook_refusals_total",
            "Reasons given in denials, by code; a denial may have several.",
            ["code"],
            registry=self.registry,
        )
        self.certificate_expiry = Gauge(
            "gpuslice_webhook_certificate_expiry_timestamp_seconds",
            "When the serving certificate in use expires; 0 without one.",
            registry=self.registry,
        )
        self.certificate_loads = Counter(
            "gpuslice_webhook_certificate_loads_total",
            "Certificates taken into use.",
            registry=self.registry,
        )
        self.certificate_failures = Counter(
            "gpuslice_webhook_certificate_failures_total",
            "Looks at the certificate's source that found something unusable or nothing.",
            registry=self.registry,
        )
        self.is_leader = Gauge(
            "gpuslice_webhook_is_leader",
            "Whether this replica makes claim templates and decides about quotas.",
            registry=self.registry,
        )

    def endpoint(self, path: str) -> EndpointMetrics:
        """Return the metrics of one *path*."""
        return EndpointMetrics(self._reviews, self._seconds, path)

    def certificate_taken(self, expires_at: float) -> None:
        """Count a certificate taken into use, and show when it expires."""
        self.certificate_loads.inc()
        self.certificate_expiry.set(expires_at)

    def refused(self, codes: Iterable[str]) -> None:
        """Count the codes of a denial's reasons: words of this program, never of a user."""
        for code in codes:
            self._refusals.labels(code).inc()
