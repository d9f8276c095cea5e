"""What a claim's status says of our devices, as JSON in and JSON out.

`status.devices` belongs to several drivers at once (KEP-4817), so everything but the one condition
that is ours stays as it came. An entry needs an allocation result of the same driver, pool,
device and share ID, and holds at most 8 conditions (resource/v1: `AllocatedDeviceStatus`). A
condition's reason has to be a word of letters, digits, `_`, `,` and `:` that begins with a letter
(apimachinery: `IsValidConditionReason`).

A device that was never ill is not mentioned: only who finds an old `False` corrects it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from gpu.names import DRIVER
from kube.objects import JsonObject

CONDITION: Final = "Ready"
RECOVERED: Final = "Recovered"

_CONDITIONS_MAX: Final = 8
_MESSAGE_MAX: Final = 1000
_NO_REASON: Final = "Unhealthy"
_NOT_IN_REASON: Final = re.compile(r"[^A-Za-z0-9_]+")
_NOT_FIRST: Final = re.compile(r"^[^A-Za-z]+")


class Verdict(NamedTuple):
    """What a condition says: that a device is ill and why, or that it is so no longer."""

    ready: bool
    reason: str
    message: str


WELL: Final = Verdict(ready=True, reason=RECOVERED, message="nothing is wrong with it any more")


class _Key(NamedTuple):
    driver: Any
    pool: Any
    device: Any
    share_id: Any


def ill(code: str, message: str) -> Verdict:
    """Return the verdict on a device that is ill, in a form that the API server takes."""
    reason = _NOT_FIRST.sub("", _NOT_IN_REASON.sub("", code)) or _NO_REASON
    said = message.encode("ascii", "replace")[:_MESSAGE_MAX].decode()
    return Verdict(ready=False, reason=reason[:_MESSAGE_MAX], message=said)


def with_conditions(
    claim: JsonObject, *, pool: str, verdicts: Mapping[str, Verdict], now: str
) -> JsonObject | None:
    """Return *claim* saying *verdicts* of devices by name, `None` when there is nothing to change.

    *now* is the time of a change, RFC 3339 in whole seconds.
    """
    status = claim.get("status")
    if not isinstance(status, dict) or not _is_list_of_objects(status.get("devices")):
        return None
    devices: list[JsonObject] = list(status.get("devices") or [])
    places = {_key(entry): place for place, entry in enumerate(devices)}
    changed = False
    for key in _own_results(status, pool):
        verdict, place = verdicts.get(key.device), places.get(key)
        if verdict is None:
            continue
        entry = _saying({} if place is None else devices[place], verdict, now)
        if entry is None:
            continue
        changed = True
        if place is None:
            devices.append(_named(key) | entry)
        else:
            devices[place] = entry
    return claim | {"status": status | {"devices": devices}} if changed else None


def is_kept(answer: JsonObject, *, pool: str) -> bool:
    """Tell whether *answer*, what the server made of a claim, has an entry of ours at all."""
    status = answer.get("status")
    devices = status.get("devices") if isinstance(status, dict) else None
    return isinstance(devices, list) and any(
        isinstance(entry, dict) and entry.get("driver") == DRIVER and entry.get("pool") == pool
        for entry in devices
    )


def _own_results(status: JsonObject, pool: str) -> Iterator[_Key]:
    """Yield what names each device of ours once, devices for administrators included."""
    allocation = status.get("allocation")
    devices = allocation.get("devices") if isinstance(allocation, dict) else None
    results = devices.get("results") if isinstance(devices, dict) else None
    if not isinstance(results, list):
        return
    keys = [_key(result) for result in results if isinstance(result, dict)]
    for key in dict.fromkeys(keys):
        if key.driver == DRIVER and key.pool == pool and key.device is not None:
            yield key


def _key(entry: JsonObject) -> _Key:
    """Return what names *entry*; what is no text names nothing and is never ours."""
    parts = (entry.get(part) for part in ("driver", "pool", "device", "shareID"))
    return _Key(*(part if isinstance(part, str) else None for part in parts))


def _named(key: _Key) -> JsonObject:
    named: JsonObject = {"driver": key.driver, "pool": key.pool, "device": key.device}
    return named if key.share_id is None else named | {"shareID": key.share_id}


def _saying(entry: JsonObject, verdict: Verdict, now: str) -> JsonObject | None:
    """Return *entry* saying *verdict*; `None` when it does so already, or has no room for it."""
    if not _is_list_of_objects(entry.get("conditions")):
        return None
    conditions: list[JsonObject] = list(entry.get("conditions") or [])
    types = [each.get("type") for each in conditions]
    found = conditions[types.index(CONDITION)] if CONDITION in types else {}
    if verdict.ready and found.get("status") != "False":
        return None
    wanted = _condition(found, verdict, now)
    if found:
        conditions[types.index(CONDITION)] = wanted
    else:
        conditions.append(wanted)
    if found == wanted or len(conditions) > _CONDITIONS_MAX:
        return None
    return entry | {"conditions": conditions}


def _condition(before: JsonObject, verdict: Verdict, now: str) -> JsonObject:
    status = "True" if verdict.ready else "False"
    since = before.get("lastTransitionTime", now) if before.get("status") == status else now
    return {
        "type": CONDITION,
        "status": status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": since,
    }


def _is_list_of_objects(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(each, dict) for each in value)
    )
