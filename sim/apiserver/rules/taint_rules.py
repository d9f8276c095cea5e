"""Rules for DeviceTaintRules (kubernetes: pkg/apis/resource/validation, 1.37)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.rules import names
from sim.apiserver.rules.devices import check_taint

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_CONDITIONS_MAX = 8
_STATES = ("False", "True", "Unknown")


def check_rule(found: Findings, rule: JsonObject) -> None:
    """Check which devices a rule is for, and what it puts on them."""
    spec = rule["spec"]
    checks = {
        "driver": names.check_driver,
        "pool": names.check_pool,
        "device": names.check_label_or_empty,
    }
    selector = spec.get("deviceSelector") or {}
    for field, check in checks.items():
        if field in selector:
            check(found, f"spec.deviceSelector.{field}", selector[field])
    check_taint(found, "spec.taint", spec["taint"])


def check_rule_status(found: Findings, rule: JsonObject) -> None:
    """Check a write to the status subresource."""
    path = "status.conditions"
    conditions = rule.get("status", {}).get("conditions", [])
    found.unique(path, [condition.get("type") for condition in conditions])
    for index, condition in enumerate(conditions):
        at = f"{path}[{index}]"
        for field in ("type", "reason"):
            if not condition.get(field):
                found.required(f"{at}.{field}")
        if condition.get("status") not in _STATES:
            found.not_supported(f"{at}.status", condition.get("status", ""), _STATES)
    found.at_most(path, conditions, _CONDITIONS_MAX)
