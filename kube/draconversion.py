"""The shapes of `resource.k8s.io/v1beta1`, into which `v1` objects fit without a loss.

`v1beta2` has the shape of `v1`, so only the name of the version differs. `v1beta1` differs in two
places (Kubernetes: pkg/apis/resource/v1beta1/conversion.go):

- a device of a ResourceSlice has everything but its name below `basic`;
- a request of a claim has what `v1` puts below `exactly` beside its name. The server fills in an
  empty `deviceClassName` beside `firstAvailable`, which means nothing.

Neither function looks at a field that it need not move, so what this program does not know goes
through. `metadata.managedFields` name versions too and stay as they are: they say in which version
a field was written, and the server reads each in that one. What has not the shape that the API
documents stays as it is as well, for whoever reads it to complain about.
"""

from collections.abc import Callable
from typing import Any, Final

from kube.objects import JsonObject

GROUP: Final = "resource.k8s.io"
V1: Final = "v1"
V1BETA2: Final = "v1beta2"
V1BETA1: Final = "v1beta1"

_Change = Callable[[JsonObject], JsonObject]


def to_version(item: JsonObject, plural: str, version: str) -> JsonObject:
    """Return the `v1` object *item*, one of the *plural* kind, as *version* has it."""
    return _converted(item, plural, target=version, lowering=version == V1BETA1)


def to_v1(item: JsonObject, plural: str, version: str) -> JsonObject:
    """Return the object or list *item* of *version* as `v1` has it."""
    if isinstance(item.get("items"), list):
        converted = [_v1_unless_odd(each, plural, version) for each in item["items"]]
        return _named(item, V1) | {"items": converted}
    return _converted(item, plural, target=V1, lifting=version == V1BETA1)


def event_to_v1(event: JsonObject, plural: str, version: str) -> JsonObject:
    """Return the watch event *event* of *version* as `v1` has it; an error stays as it is."""
    if "object" not in event:
        return event
    return event | {"object": _v1_unless_odd(event["object"], plural, version)}


def _v1_unless_odd(item: Any, plural: str, version: str) -> Any:
    return to_v1(item, plural, version) if isinstance(item, dict) else item


def _converted(
    item: JsonObject, plural: str, *, target: str, lowering: bool = False, lifting: bool = False
) -> JsonObject:
    named = _named(item, target)
    if not lowering and not lifting:
        return named
    if plural == "resourceslices":
        device = _lower_device if lowering else _lift_device
        return _changed(named, ("spec", "devices"), device)
    request = _lower_request if lowering else _lift_request
    if plural == "resourceclaims":
        return _changed(named, ("spec", "devices", "requests"), request)
    if plural == "resourceclaimtemplates":
        return _changed(named, ("spec", "spec", "devices", "requests"), request)
    return named


def _named(item: JsonObject, version: str) -> JsonObject:
    """Return *item* with the name of its version replaced; items of a list have none."""
    if str(item.get("apiVersion", "")).startswith(f"{GROUP}/"):
        return item | {"apiVersion": f"{GROUP}/{version}"}
    return item


def _changed(item: JsonObject, place: tuple[str, ...], change: _Change) -> JsonObject:
    """Return a copy of *item* with *change* done to each object of the list at *place*."""
    key, *rest = place
    value = item.get(key)
    if rest and isinstance(value, dict):
        return item | {key: _changed(value, tuple(rest), change)}
    if not rest and isinstance(value, list):
        return item | {key: [change(each) if isinstance(each, dict) else each for each in value]}
    return item


def _lower_device(device: JsonObject) -> JsonObject:
    basic = {key: value for key, value in device.items() if key != "name"}
    return {key: device[key] for key in ("name",) if key in device} | {"basic": basic}


def _lift_device(device: JsonObject) -> JsonObject:
    basic = device.get("basic")
    if not isinstance(basic, dict):
        return device
    return {key: value for key, value in device.items() if key != "basic"} | basic


def _lower_request(request: JsonObject) -> JsonObject:
    exactly = request.get("exactly")
    if not isinstance(exactly, dict):
        return request
    return {key: value for key, value in request.items() if key != "exactly"} | exactly


def _lift_request(request: JsonObject) -> JsonObject:
    if request.get("firstAvailable"):
        return {
            key: value
            for key, value in request.items()
            if key != "deviceClassName" or value not in ("", None)
        }
    outside = {key: value for key, value in request.items() if key in {"name", "firstAvailable"}}
    exactly = {key: value for key, value in request.items() if key not in outside}
    return outside | {"exactly": exactly} if exactly else outside
