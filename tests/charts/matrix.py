"""The clusters and the values that the chart is rendered for by the tests of the whole of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tests.charts.rendering import Object, merged, render, render_text

MINORS: Final = (25, 28, 31, 32, 33, 34, 35, 36, 37)
VENDORS: Final = ("v1.29.11-eks-1", "v1.31.2+k3s1", "v1.30.5-gke.100", "v1.32.2-tke.2")
MODES: Final = ("auto", "dra", "hami")

PLAIN: Final[Mapping[str, Any]] = {}
RICH: Final[Mapping[str, Any]] = {
    "commonLabels": {"example.com/team": "ml"},
    "commonAnnotations": {"example.com/contact": "ml"},
    "imagePullSecrets": [{"name": "pull"}],
    "image": {"registry": "registry.example.com", "digest": f"sha256:{'a' * 64}"},
    "library": {"image": {"repository": "hami-core", "tag": "2.8.2"}},
    "deviceClasses": {"extra": {"big.example.com": "true"}},
    "deviceConfig": {"sections": {"nvidia": {"defaultMemory": 4096}}},
    "kubeletPlugin": {
        "podLabels": {"example.com/part": "agent"},
        "podAnnotations": {"example.com/part": "agent"},
        "nodeSelector": {"example.com/pool": "gpu"},
        "resources": {"requests": {"cpu": "10m"}, "limits": {"memory": "256Mi"}},
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
    },
    "webhook": {
        "replicas": 3,
        "podLabels": {"example.com/part": "webhook"},
        "exemptNamespaces": ["monitoring"],
        "resourceDomains": ["example.com"],
        "namespaceSelector": {"matchLabels": {"example.com/gpus": "yes"}},
        "objectSelector": {"matchLabels": {"example.com/gpus": "yes"}},
        "service": {"type": "NodePort", "nodePort": 30443, "annotations": {"example.com/a": "b"}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
    },
    "scheduler": {
        "replicas": 2,
        "podLabels": {"example.com/part": "scheduler"},
        "podAnnotations": {"example.com/part": "scheduler"},
        "tolerations": [{"operator": "Exists"}],
    },
    "networkPolicy": {
        "enabled": True,
        "apiServerCidrs": ["10.0.0.0/24"],
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"example.com/prometheus": "yes"}}}],
    },
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "resourceQuota": {"create": True},
    "openshift": {"enabled": True},
}
"""Everything that can be switched on at once."""
_CARDS: Final = {
    "nodeConfiguration": {
        "externalConfigName": "by-hand",
        "config": {"nodeconfig": [{"name": "node-a", "devicesplitcount": 4}]},
    }
}
"""What only device plugins read."""
SIGNED: Final = merged(
    RICH,
    {
        "webhook": {"tls": {"mode": "cert-manager"}},
        "scheduler": {"refit": {"tls": {"mode": "cert-manager"}}},
    },
)
"""The same, with all certificates by cert-manager."""
_SIGNED: Final = (25, 34, 37)
VALUES: Final = {"plain": PLAIN, "rich": RICH, "signed": SIGNED}


@dataclass(frozen=True, slots=True)
class Case:
    """One render."""

    kubernetes: str
    minor: int
    mode: str
    values: str

    def __str__(self) -> str:
        return f"{self.kubernetes}-{self.mode}-{self.values}"

    def _all(self) -> Object:
        said: Object = {"mode": self.mode}
        if self.values != "plain" and self.mode != "dra":
            said.update(_CARDS)
        if self.mode == "dra" and self.minor < 34:
            said["resourceApiVersion"] = "v1beta1" if self.minor == 32 else "v1beta2"
        if self.values != "plain" and self.mode != "hami" and self.minor >= 36:
            said["deviceClasses"] = {"extendedResourceName": "nvidia.com/gpu"}
        return merged(VALUES[self.values], said)

    def objects(self, helm: int = 4) -> list[Object]:
        """Return what is rendered; not to be changed."""
        return _objects(self, helm)

    def text(self) -> str:
        """Return what helm prints, with comments."""
        return render_text(self._all(), kubernetes=self.kubernetes)


@cache
def _objects(case: Case, helm: int) -> list[Object]:
    return render(case._all(), kubernetes=case.kubernetes, helm=helm)


def _cases() -> tuple[Case, ...]:
    own = [
        Case(f"1.{minor}.0", minor, mode, values)
        for minor in MINORS
        for mode in MODES
        for values in VALUES
        # Below, nothing serves claims.
        if (mode != "dra" or minor >= 32) and (values != "signed" or minor in _SIGNED)
    ]
    vendors = [Case(each, int(each.split(".")[1]), "auto", "rich") for each in VENDORS]
    return (*own, *vendors)


CASES: Final = _cases()
