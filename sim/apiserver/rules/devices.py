"""Rules for one device of a ResourceSlice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sim.apiserver.rules import names
from sim.apiserver.rules.capacity import check_policy
from sim.apiserver.rules.counters import check_counter_sets

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_DECLARATIVE_SINCE = 37
_EMPTY_INVALID_SINCE = 35
_ENTRIES_MAX = 32
_VALUES_MAX = 48
_VALUE_MAX_BYTES = 64
_TAINTS_MAX = 16
_COUNTER_SETS_MAX = 2
_CONDITIONS_MAX = 4
_SCALARS = ("int", "bool", "string", "version")
_LISTS = ("ints", "bools", "strings", "versions")
_EFFECTS = ("None", "NoSchedule", "NoExecute")
_NUMBER = r"(?:0|[1-9]\d*)"
_PRERELEASE = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-{_PRERELEASE}(?:\.{_PRERELEASE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?"
)


def check_device(found: Findings, path: str, device: JsonObject, *, selects_nodes: bool) -> None:
    """Check a device; *selects_nodes* is the slice's `perDeviceNodeSelection`."""
    names.check_label_or_empty(found, f"{path}.name", device.get("name", ""))
    _check_entries(found, path, device)
    for key, capacity in device.get("capacity", {}).items():
        at = f"{path}.capacity[{key}]"
        names.check_qualified(found, at, key)
        if device.get("allowMultipleAllocations"):
            check_policy(found, at, capacity)
        elif "requestPolicy" in capacity:
            found.forbidden(f"{at}.requestPolicy", "allowMultipleAllocations must be true")
    taints = device.get("taints", ())
    found.at_most(f"{path}.taints", taints, _TAINTS_MAX)
    for index, taint in enumerate(taints):
        check_taint(found, f"{path}.taints[{index}]", taint)
    check_counter_sets(
        found,
        f"{path}.consumesCounters",
        device.get("consumesCounters", []),
        key="counterSet",
        most=_COUNTER_SETS_MAX,
    )
    _check_nodes(found, path, device, selects_nodes=selects_nodes)
    _check_binding(found, path, device)


def _check_entries(found: Findings, path: str, device: JsonObject) -> None:
    attributes = device.get("attributes", {})
    total = len(attributes) + len(device.get("capacity", {}))
    if total > _ENTRIES_MAX:
        found.invalid(
            path,
            total,
            f"the total number of attributes and capacities must not exceed {_ENTRIES_MAX}",
        )
    values = 0
    for key, attribute in attributes.items():
        at = f"{path}.attributes[{key}]"
        # The server names the map alone here, and the entry for its value.
        names.check_qualified(found, f"{path}.attributes", key)
        values += sum(len(attribute.get(name, ())) for name in _LISTS) or 1
        _check_attribute(found, at, attribute)
    if values > _VALUES_MAX:
        found.invalid(
            path, values, f"the total number of attribute values must not exceed {_VALUES_MAX}"
        )


def _check_attribute(found: Findings, path: str, attribute: JsonObject) -> None:
    present = [name for name in (*_SCALARS, *_LISTS) if name in attribute]
    if len(present) != 1:
        exactly = "exactly one" if present else "one"
        known = ", ".join(f"`{name}`" for name in (*_SCALARS, *_LISTS))
        why = f"must specify {exactly} of: {known}"
        if found.minor < _DECLARATIVE_SINCE:
            why = "exactly one value must be specified"
        if present or found.minor >= _EMPTY_INVALID_SINCE:
            found.invalid(path, ", ".join(present), why)
        else:
            found.required(path, why)
    for name in _LISTS:
        if attribute.get(name) == []:
            found.invalid(f"{path}.{name}", [], "must not be empty if specified")
    for name in ("string", "strings", "version", "versions"):
        values = attribute.get(name, ())
        for text in [values] if isinstance(values, str) else values:
            found.at_most_bytes(f"{path}.{name}", text, _VALUE_MAX_BYTES)
            if name.startswith("version") and _SEMVER.fullmatch(text) is None:
                found.invalid(
                    f"{path}.{name}", text, "must be a string compatible with semver.org spec 2.0.0"
                )


def check_taint(found: Findings, path: str, taint: JsonObject) -> None:
    """Check a taint of a device or of a rule."""
    key = taint.get("key", "")
    if not key:
        found.required(f"{path}.key")
    elif (why := names.fault_of_label_key(key)) is not None:
        found.invalid(f"{path}.key", key, why)
    if not names.is_label_value(taint.get("value", "")):
        found.invalid(f"{path}.value", taint["value"], names.LABEL_VALUE_RULE)
    effect = taint.get("effect", "")
    if not effect:
        found.required(f"{path}.effect")
    elif effect not in _EFFECTS:
        found.not_supported(f"{path}.effect", effect, _EFFECTS)


def _check_nodes(found: Findings, path: str, device: JsonObject, *, selects_nodes: bool) -> None:
    present = [name for name in ("nodeName", "nodeSelector", "allNodes") if name in device]
    if selects_nodes and len(present) != 1:
        found.required(
            path,
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required "
            "when `perDeviceNodeSelection` is set to true",
        )
    if not selects_nodes and present:
        found.invalid(
            path, ", ".join(present), "can only be set if `perDeviceNodeSelection` is set to true"
        )


def _check_binding(found: Findings, path: str, device: JsonObject) -> None:
    ready, failed = device.get("bindingConditions", ()), device.get("bindingFailureConditions", ())
    if bool(ready) != bool(failed):
        missing = "bindingFailureConditions" if ready else "bindingConditions"
        found.required(f"{path}.{missing}", "both lists of conditions are needed together")
    for name, conditions in (("bindingConditions", ready), ("bindingFailureConditions", failed)):
        found.at_most(f"{path}.{name}", conditions, _CONDITIONS_MAX)
        found.unique(f"{path}.{name}", conditions)
    for condition in set(ready) & set(failed):
        found.invalid(
            f"{path}.bindingFailureConditions", condition, "must not be in bindingConditions too"
        )
