"""How the monitors name series, judged by the real promtool."""

import re
from pathlib import Path
from typing import Final

from tests.charts.rendering import nested, of_kind, render
from tests.charts.test_alerts import configured

_CAPITAL: Final = re.compile(r"([A-Z])")


def test_relabelings_of_the_monitors_are_some(tmp_path: Path) -> None:
    """In Prometheus' own spelling, into which the operator puts them."""
    monitors = of_kind(render(nested("metrics.serviceMonitor.enabled", value=True)), "PodMonitor")
    assert monitors
    jobs = [
        {
            "job_name": monitor["metadata"]["name"],
            "scrape_interval": endpoint["interval"],
            "scrape_timeout": "5s",
            "honor_labels": endpoint["honorLabels"],
            "metrics_path": endpoint["path"],
            "kubernetes_sd_configs": [{"role": "pod"}],
            "relabel_configs": [
                {_CAPITAL.sub(r"_\1", key).lower(): value for key, value in each.items()}
                for each in endpoint["relabelings"]
            ],
        }
        for monitor in monitors
        for endpoint in monitor["spec"]["podMetricsEndpoints"]
    ]
    configured(tmp_path, {"scrape_configs": jobs})
