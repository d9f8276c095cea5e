"""What kubelet says of the time that its calls to prepare take.

The buckets of its histogram begin at 100 ms, ten times what a call takes;
its sum, read after each call, gives each one (kubelet: pkg/kubelet/metrics/metrics.go).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gpu import names
from kube.client import Client

_FAMILY: Final = "dra_grpc_operations_duration_seconds"
_PREPARE: Final = "NodePrepareResources"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepares:
    """Calls so far and the time that they took together."""

    count: int
    sum_s: float

    def mean_since_s(self, earlier: "Prepares") -> float:
        """Return the mean time of the calls since *earlier*, of which there must be some."""
        return (self.sum_s - earlier.sum_s) / (self.count - earlier.count)


def prepares(client: Client, node: str) -> Prepares:
    """Return what kubelet of *node* says of the calls for our claims so far."""
    return read_prepares(client.get(f"/api/v1/nodes/{node}/proxy/metrics").decode())


def read_prepares(text: str) -> Prepares:
    """Return the same from kubelet's metrics."""
    ours = [
        sample
        for family in text_string_to_metric_families(text)
        if family.name.endswith(_FAMILY)
        for sample in family.samples
        if sample.labels.get("driver_name") == names.DRIVER
        and sample.labels.get("method_name", "").endswith(_PREPARE)
    ]
    return Prepares(count=int(_total(ours, "_count")), sum_s=_total(ours, "_sum"))


def _total(samples: Iterable[Sample], suffix: str) -> float:
    return sum(each.value for each in samples if each.name.endswith(suffix))
