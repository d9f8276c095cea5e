"""The API server's rules for a device, applied before it is sent.

A slice is refused whole, so one bad device would take the others of its slice off the cluster.
The rules are those of Kubernetes 1.36 (pkg/apis/resource/validation: `validateDevice`,
`validateRequestPolicy`), narrowed to the fields that this driver publishes: counters, binding
conditions, per-device node selection and list attributes are unknown here.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from dra.attributes import STRING_MAX_BYTES
from gpu.refusal import Refusal, RefusedError
from kube.objects import JsonObject
from kube.quantity import Quantity, QuantityError, parse

ENTRIES_MAX = 32
TAINTS_MAX = 16
VALID_VALUES_MAX = 10

_FIELDS = frozenset({"name", "attributes", "capacity", "taints", "allowMultipleAllocations"})
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TAINT_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NUMBER = r"(0|[1-9][0-9]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
    r"(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_EFFECTS = frozenset({"None", "NoSchedule", "NoExecute"})
_DOMAIN_MAX = 63
_TAINT_DOMAIN_MAX = 253
_INT64 = range(-(2**63), 2**63)


def check_device(device: JsonObject) -> None:
    """Raise `RefusedError` for the first rule that *device* breaks."""
    for unknown in device.keys() - _FIELDS:
        _refuse("UnknownField", unknown, device[unknown], "this driver does not publish it")
    name = device.get("name")
    if not isinstance(name, str) or not _LABEL.fullmatch(name):
        _refuse("InvalidName", "name", name, "a DNS label of at most 63 characters")
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    if len(attributes) + len(capacity) > ENTRIES_MAX:
        count = len(attributes) + len(capacity)
        _refuse("TooManyEntries", "attributes", count, f"{ENTRIES_MAX} with the capacities")
    for key, value in attributes.items():
        _check_key(f"attributes[{key}]", key)
        _check_attribute(f"attributes[{key}]", value)
    for key, value in capacity.items():
        _check_key(f"capacity[{key}]", key)
        multiple = device.get("allowMultipleAllocations", False)
        _check_capacity(f"capacity[{key}]", value, multiple=multiple)
    _check_taints(device.get("taints", []))


def _refuse(code: str, field: str, value: object, limit: str) -> NoReturn:
    raise RefusedError(Refusal(code=code, field=field, value=str(value), limit=limit))


def _check_key(field: str, key: str) -> None:
    domain, slash, identifier = key.rpartition("/")
    known = _IDENTIFIER.fullmatch(identifier)
    if slash:
        known = known and _SUBDOMAIN.fullmatch(domain)
    if not known or len(domain) > _DOMAIN_MAX:
        _refuse("InvalidKey", field, key, "`[<domain>/]<letters, digits, _, at most 32>`")


def _check_attribute(field: str, value: Mapping[str, Any]) -> None:
    match dict(value):
        case {"string": str(text), **rest} if not rest:
            good = len(text.encode("utf-8", "replace")) <= STRING_MAX_BYTES
        case {"version": str(text), **rest} if not rest:
            good = len(text) <= STRING_MAX_BYTES and bool(_SEMVER.fullmatch(text))
        case {"bool": bool(), **rest} if not rest:
            good = True
        case {"int": int(number), **rest} if not rest and not isinstance(number, bool):
            good = number in _INT64
        case _:
            good = False
    if not good:
        limit = "one int64, bool, string of 64 bytes or semver X.Y.Z"
        _refuse("InvalidAttribute", field, value, limit)


def _quantity(field: str, text: object) -> Quantity:
    try:
        quantity = parse(str(text))
    except QuantityError as error:
        _refuse("InvalidQuantity", field, text, error.why)
    # Servers of 1.36 panic on policies with fractions or values outside int64.
    if not quantity.is_whole() or quantity.nanos < 0:
        _refuse("InvalidQuantity", field, text, "a whole number, 0 or more")
    return quantity


def _check_capacity(field: str, capacity: JsonObject, *, multiple: bool) -> None:
    value = _quantity(f"{field}.value", capacity.get("value"))
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    if not multiple:
        limit = "only with allowMultipleAllocations"
        _refuse("PolicyNotAllowed", f"{field}.requestPolicy", policy, limit)
    inside = f"{field}.requestPolicy"
    valid_values, valid_range = policy.get("validValues"), policy.get("validRange")
    if valid_values is not None and valid_range is not None:
        _refuse("InvalidPolicy", inside, policy, "one of validValues and validRange")
    default = _quantity(f"{inside}.default", policy.get("default")).value()
    if default > value.value():
        limit = f"at most the value {value}, else no request fits"
        _refuse("InvalidPolicy", f"{inside}.default", default, limit)
    if valid_values is not None:
        _check_valid_values(f"{inside}.validValues", valid_values, default, value.value())
    if valid_range is not None:
        _check_valid_range(f"{inside}.validRange", valid_range, default, value.value())


def _check_valid_values(field: str, texts: Sequence[str], default: int, top: int) -> None:
    values = [_quantity(field, text).value() for text in texts]
    if not 1 <= len(values) <= VALID_VALUES_MAX:
        _refuse("InvalidPolicy", field, texts, f"1 to {VALID_VALUES_MAX} values")
    if values != sorted(set(values)) or values[-1] > top or default not in values:
        limit = f"ascending, at most {top}, the default {default} among them"
        _refuse("InvalidPolicy", field, texts, limit)


def _check_valid_range(field: str, valid: JsonObject, default: int, top: int) -> None:
    low = _quantity(f"{field}.min", valid.get("min")).value()
    high = _quantity(f"{field}.max", valid["max"]).value() if "max" in valid else top
    if not low <= default <= high <= top:
        limit = f"min <= default {default} <= max <= value {top}"
        _refuse("InvalidPolicy", field, valid, limit)
    if "step" not in valid:
        return
    step = _quantity(f"{field}.step", valid["step"]).value()
    if step < 1 or low + step > top:
        _refuse("InvalidPolicy", f"{field}.step", valid["step"], f"1 or more, min + step <= {top}")
    if (default - low) % step or ("max" in valid and (high - low) % step):
        _refuse("InvalidPolicy", field, valid, f"default {default} and max on the steps from min")


def _check_taints(taints: Sequence[JsonObject]) -> None:
    if len(taints) > TAINTS_MAX:
        _refuse("TooManyTaints", "taints", len(taints), str(TAINTS_MAX))
    for index, taint in enumerate(taints):
        field = f"taints[{index}]"
        domain, slash, name = str(taint.get("key", "")).rpartition("/")
        known = _TAINT_NAME.fullmatch(name) and len(domain) <= _TAINT_DOMAIN_MAX
        if not known or (slash and not _SUBDOMAIN.fullmatch(domain)):
            _refuse("InvalidTaint", f"{field}.key", taint.get("key"), "the syntax of a label key")
        value = taint.get("value", "")
        if value and not _TAINT_NAME.fullmatch(value):
            _refuse("InvalidTaint", f"{field}.value", value, "the syntax of a label value")
        if taint.get("effect") not in _EFFECTS:
            limit = "one of " + ", ".join(sorted(_EFFECTS))
            _refuse("InvalidTaint", f"{field}.effect", taint.get("effect"), limit)
