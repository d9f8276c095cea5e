"""Whether a slice on the server is the one that was sent, and what of it was lost.

The server rewrites what it stores without changing its meaning: quantities become canonical
(1024Mi is 1Gi), `false` and empty fields go, a taint gets the time when it was added. It also
drops, without a word, the fields of feature gates that are off; that is a loss and not a rewrite.
Fields that this version does not know count in neither direction: a newer server may default some.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kube.objects import JsonObject
from kube.quantity import QuantityError, parse

_SPEC_FIELDS = (
    "driver",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "perDeviceNodeSelection",
    "sharedCounters",
)
_DEVICE_FIELDS = (
    "name",
    "attributes",
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "taints",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
    "allowMultipleAllocations",
)
_TIME_SLACK_S = 1
"""The server keeps whole seconds."""


def comparable(spec: JsonObject) -> JsonObject:
    """Return *spec* in a form equal for all texts of one meaning, without the generation."""
    pool = spec.get("pool", {})
    form = _known(spec, _SPEC_FIELDS)
    form["pool"] = {key: pool.get(key) for key in ("name", "resourceSliceCount")}
    if devices := spec.get("devices"):
        form["devices"] = [_device(device) for device in devices]
    return form


def fingerprint(spec: JsonObject) -> str:
    """Return a short text that is equal for equal `comparable` forms."""
    text = json.dumps(comparable(spec), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def with_times(spec: JsonObject, stored: JsonObject) -> JsonObject:
    """Return *spec* with the times that *stored* has for the same taints of the same devices."""
    times = {
        (device.get("name"), *_identity(taint)): taint.get("timeAdded")
        for device in stored.get("devices") or ()
        for taint in device.get("taints") or ()
    }
    if not times:
        return spec
    return spec | {"devices": [_timed(device, times) for device in spec.get("devices") or ()]}


def lost_fields(sent: JsonObject, stored: JsonObject) -> tuple[str, ...]:
    """Return the paths of what *sent* says and *stored* does not; list positions are left out."""
    losses = _losses(comparable(with_times(sent, stored)), comparable(stored), "spec")
    return tuple(dict.fromkeys(losses))


def _known(source: JsonObject, fields: tuple[str, ...]) -> JsonObject:
    # Go leaves false and empty values out, so they mean the same as absent.
    return {field: source[field] for field in fields if source.get(field)}


def _device(device: JsonObject) -> JsonObject:
    form = _known(device, _DEVICE_FIELDS)
    if capacity := device.get("capacity"):
        form["capacity"] = {key: _capacity(value) for key, value in capacity.items()}
    return form


def _capacity(capacity: JsonObject) -> JsonObject:
    form: JsonObject = {"value": _canonical(capacity.get("value"))}
    policy = capacity.get("requestPolicy") or {}
    wanted = {
        "default": _canonical(policy.get("default")),
        "validValues": [_canonical(value) for value in policy.get("validValues") or ()],
        "validRange": {
            key: _canonical(value) for key, value in (policy.get("validRange") or {}).items()
        },
    }
    if kept := {key: value for key, value in wanted.items() if value}:
        form["requestPolicy"] = kept
    return form


def _canonical(value: object) -> str:
    if value is None:
        return ""
    try:
        return str(parse(str(value)).nanos)
    except QuantityError:
        return str(value)


def _identity(taint: JsonObject) -> tuple[str, str, str]:
    return taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")


def _timed(device: JsonObject, times: Mapping[tuple[Any, ...], Any]) -> JsonObject:
    taints = device.get("taints")
    if not taints:
        return device
    filled = []
    for taint in taints:
        stored = times.get((device.get("name"), *_identity(taint)))
        same = stored is not None and _same_time(taint.get("timeAdded"), stored)
        filled.append(taint | {"timeAdded": stored} if same else taint)
    return device | {"taints": filled}


def _same_time(wanted: str | None, stored: str) -> bool:
    if wanted is None:
        return True
    try:
        apart = datetime.fromisoformat(wanted) - datetime.fromisoformat(stored)
    except (ValueError, TypeError):
        return False
    return abs(apart.total_seconds()) <= _TIME_SLACK_S


def _losses(sent: Any, stored: Any, path: str) -> Iterator[str]:
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            if key not in stored:
                yield f"{path}.{key}"
            else:
                yield from _losses(value, stored[key], f"{path}.{key}")
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for mine, theirs in zip(sent, stored, strict=True):
            yield from _losses(mine, theirs, f"{path}[]")
    elif sent != stored:
        yield path
