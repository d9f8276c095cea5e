"""Rules for the status of ResourceClaims: allocation, reservations, device status."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from sim.apiserver.rules import names
from sim.apiserver.rules.claims import (
    check_config,
    check_reference,
    check_references,
    request_names,
)

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.rules.findings import Findings

_DECLARATIVE_SINCE = 37
_RESULTS_MAX = 32
_CONFIGS_MAX = 64
_CONSUMERS_MAX = 256
_CONDITIONS_MAX = 8
_DATA_MAX_BYTES = 10 * 1024
_IPS_MAX = 16
_INTERFACE_MAX_BYTES = 256
_HARDWARE_MAX_BYTES = 128
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

DeviceKey = tuple[Any, Any, Any, Any]


def device_key(entry: JsonObject) -> DeviceKey:
    """Return what names an allocated device: driver, pool, device and share."""
    return (entry.get("driver"), entry.get("pool"), entry.get("device"), entry.get("shareID"))


def results(claim: JsonObject) -> list[JsonObject]:
    """Return the allocation results of a claim, empty when it is not allocated."""
    allocation = claim.get("status", {}).get("allocation") or {}
    found: list[JsonObject] = allocation.get("devices", {}).get("results", [])
    return found


def drop_deallocated(new: JsonObject, old: JsonObject) -> None:
    """Remove the device status of devices that *new* no longer has and *old* had."""
    devices = new.get("status", {}).get("devices")
    if devices is None:
        return
    gone = {device_key(result)[:3] for result in results(old)}
    gone -= {device_key(result)[:3] for result in results(new)}
    kept = [device for device in devices if device_key(device)[:3] not in gone]
    if kept:
        new["status"]["devices"] = kept
    else:
        del new["status"]["devices"]


def check_claim_status(found: Findings, new: JsonObject, old: JsonObject) -> None:
    """Check a write to the status subresource."""
    status, before = new.get("status", {}), old.get("status", {})
    _check_consumers(found, new, old)
    allocation = status.get("allocation")
    if allocation is not None and before.get("allocation") is not None:
        if allocation != before["allocation"]:
            why = "field cannot be modified once set"
            if found.minor < _DECLARATIVE_SINCE:
                why = "field is immutable"
            found.invalid("status.allocation", allocation, why)
    elif allocation is not None:
        _check_allocation(found, allocation, request_names(new["spec"]))
    allocated = {device_key(result) for result in results(new)}
    devices = status.get("devices", [])
    found.unique("status.devices", [device_key(device) for device in devices])
    for index, device in enumerate(devices):
        path = f"status.devices[{index}]"
        if device_key(device) not in allocated:
            found.invalid(
                path,
                dict(zip(("Driver", "Pool", "Device"), device_key(device), strict=False)),
                "must be an allocated device in the claim",
            )
        _check_device(found, path, device)


def _check_consumers(found: Findings, new: JsonObject, old: JsonObject) -> None:
    path = "status.reservedFor"
    consumers = new.get("status", {}).get("reservedFor", [])
    found.at_most(path, consumers, _CONSUMERS_MAX)
    found.unique(path, [consumer.get("uid") for consumer in consumers])
    for index, consumer in enumerate(consumers):
        for field in ("resource", "name", "uid"):
            if not consumer.get(field):
                found.required(f"{path}[{index}].{field}")
    if consumers and new["status"].get("allocation") is None:
        found.forbidden(path, "may not be specified when `allocated` is not set")
    elif new["metadata"].get("deletionTimestamp"):
        before = old.get("status", {}).get("reservedFor", [])
        if any(consumer not in before for consumer in consumers):
            found.forbidden(
                path,
                "new entries may not be added while `deallocationRequested` "
                "or `deletionTimestamp` are set",
            )


def _check_allocation(found: Findings, allocation: JsonObject, known: set[str]) -> None:
    path = "status.allocation.devices"
    devices = allocation.get("devices", {})
    found.at_most(f"{path}.results", devices.get("results"), _RESULTS_MAX)
    for index, result in enumerate(devices.get("results", ())):
        at = f"{path}.results[{index}]"
        check_reference(found, f"{at}.request", result.get("request", ""), known)
        names.check_driver(found, f"{at}.driver", result.get("driver", ""))
        names.check_pool(found, f"{at}.pool", result.get("pool", ""))
        names.check_label(found, f"{at}.device", result.get("device", ""))
        share = result.get("shareID")
        if share is not None and _UID.fullmatch(share) is None:
            found.invalid(f"{at}.shareID", share, "uid must be in RFC 4122 normalized form")
    found.at_most(f"{path}.config", devices.get("config"), _CONFIGS_MAX)
    for index, config in enumerate(devices.get("config", ())):
        at = f"{path}.config[{index}]"
        if config.get("source") not in {"FromClass", "FromClaim"}:
            found.not_supported(
                f"{at}.source", config.get("source", ""), ("FromClaim", "FromClass")
            )
        check_references(found, f"{at}.requests", config.get("requests", []), known)
        check_config(found, at, config)


def _check_device(found: Findings, path: str, device: JsonObject) -> None:
    found.at_most(f"{path}.conditions", device.get("conditions"), _CONDITIONS_MAX)
    if "data" in device:
        text = json.dumps(device["data"], separators=(",", ":"))
        found.at_most_bytes(f"{path}.data", text, _DATA_MAX_BYTES)
    network = device.get("networkData", {})
    at = f"{path}.networkData"
    found.at_most(f"{at}.ips", network.get("ips"), _IPS_MAX)
    found.unique(f"{at}.ips", network.get("ips", ()))
    found.at_most_bytes(
        f"{at}.interfaceName", network.get("interfaceName", ""), _INTERFACE_MAX_BYTES
    )
    found.at_most_bytes(
        f"{at}.hardwareAddress", network.get("hardwareAddress", ""), _HARDWARE_MAX_BYTES
    )
