"""Rules for sets of counters, which a slice offers and its devices consume in one form.

Kubernetes: pkg/apis/resource/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.rules import names

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_COUNTERS_MAX = 32


def check_counter_sets(
    found: Findings, path: str, sets: list[JsonObject], *, key: str, most: int
) -> None:
    """Check up to *most* sets, each named by its field *key*."""
    found.at_most(path, sets, most)
    found.unique(path, [each.get(key) for each in sets])
    for index, each in enumerate(sets):
        at = f"{path}[{index}]"
        names.check_label(found, f"{at}.{key}", each.get(key, ""))
        counters = each.get("counters", {})
        if not counters:
            found.required(f"{at}.counters")
        found.at_most(f"{at}.counters", counters, _COUNTERS_MAX)
        for name in counters:
            names.check_label(found, f"{at}.counters", name)
