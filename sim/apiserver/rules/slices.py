"""Rules for ResourceSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.rules import names
from sim.apiserver.rules.counters import check_counter_sets
from sim.apiserver.rules.devices import check_device

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_DEVICES_MAX = 128
_DEVICES_MAX_ADVANCED = 64
_COUNTER_SETS_MAX = 8
_SCOPES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_SEPARATE_COUNTERS_SINCE = 35
_LIST_VALUES = {"ints", "bools", "strings", "versions"}


def check_slice(
    found: Findings, new: JsonObject, old: JsonObject | None, *, server_minor: int
) -> None:
    """Check a slice; *server_minor* is the number behind `1.`."""
    spec = new["spec"]
    names.check_driver(found, "spec.driver", spec.get("driver", ""), lower=True)
    _check_pool(found, spec["pool"])
    if old is not None:
        before = old["spec"]
        found.unchanged("spec.pool.name", before["pool"]["name"], spec["pool"]["name"])
        found.unchanged("spec.driver", before["driver"], spec["driver"])
        found.unchanged("spec.nodeName", before.get("nodeName"), spec.get("nodeName"))
    _check_scope(found, spec)
    if "devices" in spec and "sharedCounters" in spec and server_minor >= _SEPARATE_COUNTERS_SINCE:
        found.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    _check_devices(found, spec)
    check_counter_sets(
        found,
        "spec.sharedCounters",
        spec.get("sharedCounters", []),
        key="name",
        most=_COUNTER_SETS_MAX,
    )


def _check_pool(found: Findings, pool: JsonObject) -> None:
    names.check_pool(found, "spec.pool.name", pool.get("name", ""))
    if pool["resourceSliceCount"] <= 0:
        found.invalid(
            "spec.pool.resourceSliceCount", pool["resourceSliceCount"], "must be greater than zero"
        )
    if pool["generation"] < 0:
        found.invalid(
            "spec.pool.generation", pool["generation"], "must be greater than or equal to zero"
        )


def _check_scope(found: Findings, spec: JsonObject) -> None:
    if spec.get("nodeName") == "":
        found.invalid("spec.nodeName", "", "must be either unset or set to a non-empty string")
    present = [f"`{name}`" for name in _SCOPES if spec.get(name)]
    if len(present) != 1:
        why = "exactly one of " + ", ".join(f"`{name}`" for name in _SCOPES) + " is required"
        if present:
            found.invalid(
                "spec", f"{{{', '.join(present)}}}", f"{why}, but multiple fields are set"
            )
        else:
            found.required("spec", why)
    if spec.get("nodeName"):
        names.check_subdomain(found, "spec.nodeName", spec["nodeName"])
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name) is False:
            found.invalid(f"spec.{name}", False, "must be either unset or set to true")
    selector = spec.get("nodeSelector")
    if selector is not None:
        _check_selector(found, "spec.nodeSelector.nodeSelectorTerms", selector)


def _check_selector(found: Findings, path: str, selector: JsonObject) -> None:
    terms = selector["nodeSelectorTerms"]
    if not terms:
        found.required(path, "must have at least one node selector term")
    if len(terms) != 1:
        found.invalid(path, terms, "must have exactly one node selector term")


def _check_devices(found: Findings, spec: JsonObject) -> None:
    devices = spec.get("devices", [])
    limit = _DEVICES_MAX_ADVANCED if any(map(_is_advanced, devices)) else _DEVICES_MAX
    if len(devices) > limit:
        found.at_most("spec.devices", devices, limit)
        return
    selects_nodes = bool(spec.get("perDeviceNodeSelection"))
    for index, device in enumerate(devices):
        check_device(found, f"spec.devices[{index}]", device, selects_nodes=selects_nodes)
    found.unique("spec.devices", [device.get("name") for device in devices])


def _is_advanced(device: JsonObject) -> bool:
    attributes = device.get("attributes", {}).values()
    return (
        bool(device.get("taints"))
        or bool(device.get("consumesCounters"))
        or any(_LIST_VALUES & attribute.keys() for attribute in attributes)
    )
