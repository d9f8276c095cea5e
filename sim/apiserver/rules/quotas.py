"""Rules for ResourceQuotas: what may be limited, and how.

Source: kubernetes pkg/apis/core/validation `ValidateResourceQuotaSpec`. A name with a domain may be
anything; without one it is of Kubernetes' own. Nothing here counts what is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube import quantity

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_STANDARD = frozenset(
    {
        *("cpu", "memory", "ephemeral-storage", "configmaps", "secrets", "services"),
        *("pods", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"),
        *("requests.cpu", "requests.memory", "requests.ephemeral-storage", "requests.storage"),
        *("limits.cpu", "limits.memory", "limits.ephemeral-storage"),
        *("services.loadbalancers", "services.nodeports"),
    }
)


def check_quota(found: Findings, new: JsonObject) -> None:
    """Check what a quota limits."""
    for name, amount in new.get("spec", {}).get("hard", {}).items():
        path = f"spec.hard[{name}]"
        if "/" not in name and name not in _STANDARD:
            found.invalid(path, name, "must be a standard resource type or fully qualified")
            found.invalid(path, name, "must be a standard resource for quota")
        if quantity.parse(amount).value() < 0:
            found.invalid(path, amount, "must be greater than or equal to 0")
