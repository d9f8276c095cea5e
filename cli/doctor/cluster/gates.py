"""Which feature gates of the API server are on, as far as trial objects do not tell."""

import re
from typing import Final

from cli.doctor.cluster.view import Cluster

_PATH: Final = "/metrics"
_ENABLED: Final = re.compile(
    rb'^kubernetes_feature_enabled\{name="([A-Za-z0-9]+)"[^}]*\} ([01])', re.MULTILINE
)
"""component-base: metrics/prometheus/feature; for each gate since Kubernetes 1.26."""


def enabled(cluster: Cluster, gate: str) -> bool | None:
    """Tell whether *gate* is on, `None` where the server does not name it; raises `KubeError`."""
    return cluster.once("gates", lambda: _read(cluster)).get(gate)


def _read(cluster: Cluster) -> dict[str, bool]:
    text = cluster.client.get(_PATH)
    return {name.decode(): value == b"1" for name, value in _ENABLED.findall(text)}
