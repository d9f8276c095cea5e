"""What namespaces use of their GPU quota, as metrics."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.quotacheck import QuotaCheck
from webhook.view import ClusterView


class QuotaFigures(Collector):
    """Used amounts and limits, computed when they are asked for."""

    def __init__(self, quota: QuotaCheck, view: ClusterView) -> None:
        """Prepare; *view* tells which namespaces have quotas."""
        self._quota = quota
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield both for every bound of every namespace."""
        labels = ["namespace", "quota", "key"]
        used = GaugeMetricFamily(
            "gpuslice_quota_used", "Amount of GPUs that a quota counts.", labels=labels
        )
        limit = GaugeMetricFamily(
            "gpuslice_quota_limit", "Amount of GPUs that a quota allows.", labels=labels
        )
        for each in self._quota.figures(self._view.namespaces_with_quotas()):
            values = [each.namespace, each.quota, each.key]
            used.add_metric(values, each.used)
            if each.limit is not None:
                limit.add_metric(values, each.limit)
        yield from (used, limit)
