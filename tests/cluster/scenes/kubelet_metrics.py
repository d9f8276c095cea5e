"""What kubelet says of the time that a prepare takes.

Its histogram has buckets, so a percentile is a line between two of them, as Prometheus'
histogram_quantile draws it (kubelet: pkg/kubelet/metrics/metrics.go).
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from gpu import names
from kube.client import Client

_FAMILY: Final = "dra_grpc_operations_duration_seconds"
_PREPARE: Final = "NodePrepareResources"


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Calls by how long they took; *buckets* counts them up to each bound in seconds."""

    buckets: Mapping[float, float]
    count: float
    sum_s: float

    def minus(self, earlier: "Histogram") -> "Histogram":
        """Return the calls since *earlier*."""
        return Histogram(
            buckets={
                bound: count - earlier.buckets.get(bound, 0.0)
                for bound, count in self.buckets.items()
            },
            count=self.count - earlier.count,
            sum_s=self.sum_s - earlier.sum_s,
        )

    def quantile_s(self, share: float) -> float:
        """Return the time that *share* of the calls did not exceed."""
        wanted = share * self.count
        bounds = [(0.0, 0.0), *sorted(self.buckets.items())]
        for (low, before), (high, upto) in itertools.pairwise(bounds):
            if upto >= wanted:
                if high == float("inf"):
                    return low
                inside = upto - before
                return low + (high - low) * ((wanted - before) / inside if inside else 1.0)
        return bounds[-1][0]


def prepares(client: Client, node: str) -> Histogram:
    """Return how long the calls to prepare our claims have taken on *node* so far."""
    text = client.get(f"/api/v1/nodes/{node}/proxy/metrics").decode()
    buckets: dict[float, float] = {}
    count = sum_s = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples if family.name.endswith(_FAMILY) else ():
            labels = sample.labels
            ours = labels.get("driver_name") == names.DRIVER
            if not ours or not labels.get("method_name", "").endswith(_PREPARE):
                continue
            if sample.name.endswith("_bucket"):
                bound = float(labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
            elif sample.name.endswith("_count"):
                count += sample.value
            elif sample.name.endswith("_sum"):
                sum_s += sample.value
    return Histogram(buckets=buckets, count=count, sum_s=sum_s)
