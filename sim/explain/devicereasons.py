"""Fill in what stands behind the refusal of a device: the field, the values and the holders."""

import re
from collections.abc import Iterable, Iterator

from gpu.refusal import Refusal
from kube.objects import JsonObject
from sim.explain.case import Case
from sim.explain.holding import Held, holder_of
from sim.explain.model import DeviceReason
from sim.explain.naming import Place
from sim.explain.remedies import remedy_of
from sim.explain.shortages import capacity_named
from sim.scheduler.devices import Device, DeviceId
from sim.scheduler.taints import taint_text, untolerated
from sim.scheduler.verdicts import DeviceVerdict

_IN_USE = "DeviceInUse"
_COUNTER = "CounterInsufficient"
_SELECTOR = "SelectorFalse"
_TAINT = "TaintNotTolerated"
_CONSTRAINT = "ConstraintRefused"
_PARTS = {
    "CapacityNameUnknown": "capacity.requests",
    "CountNotReached": "count",
    _TAINT: "tolerations",
}
"""Which part of a request is at odds with the device, by code."""


def device_reason(case: Case, verdict: DeviceVerdict) -> DeviceReason:
    """Explain one refusal."""
    place = case.places.get((verdict.claim, verdict.request))
    device = device_of(case, verdict)
    code = verdict.refused.code
    capacity = capacity_named(code, device) if device else ""
    identity = verdict.device or DeviceId("", "", "")
    holders = sorted(
        holders_of(case, code, identity), key=lambda held: held.amount(capacity), reverse=True
    )
    return DeviceReason(
        claim=str(verdict.claim),
        request=verdict.request,
        driver=identity.driver,
        pool=identity.pool,
        device=identity.device,
        refusal=_refusal(case, verdict, place, device, capacity),
        holders=tuple(holder_of(held, capacity) for held in holders),
    )


def device_of(case: Case, verdict: DeviceVerdict) -> Device | None:
    """Return the device that *verdict* is about, if it is about one that can be read."""
    if verdict.device is None or not verdict.device.device:
        return None
    return case.devices(verdict.node).get(verdict.device)


def holders_of(case: Case, code: str, device: DeviceId) -> tuple[Held, ...]:
    """Return what may be in the way of a request that *device* was refused to."""
    if code == _COUNTER:
        return case.holdings.of_pool(device.driver, device.pool)
    if code == _IN_USE or code.endswith("Insufficient"):
        return case.holdings.of(device)
    return ()


def _refusal(
    case: Case, verdict: DeviceVerdict, place: Place | None, device: Device | None, capacity: str
) -> Refusal:
    code, value, limit = verdict.refused
    where = _field(case, verdict, place, capacity)
    if place is not None and device is not None:
        if code == _SELECTOR:
            limit = ", ".join(_read_values(value, device))
        elif code == _TAINT:
            taint = untolerated(device.taints, place.wanted.tolerations)
            value = taint_text(taint) if taint else value
        elif capacity and code.endswith("Insufficient"):
            value = _asked(value, place, capacity)
    return Refusal(code=code, field=where, value=value, limit=limit, remedy=remedy_of(code))


def _field(case: Case, verdict: DeviceVerdict, place: Place | None, capacity: str) -> str:
    code, device = verdict.refused.code, verdict.device
    if place is not None:
        if code == _SELECTOR:
            return selector_path(case, place, verdict.refused.value)
        if capacity:
            return f"{place.capacity_path}.{capacity}"
        if code in _PARTS:
            return f"{place.path}.{_PARTS[code]}"
    if code == _CONSTRAINT:
        return "spec.devices.constraints"
    if device is not None:
        return "/".join(part for part in ("pool", *device) if part)
    return f"node/{verdict.node}"


def selector_path(case: Case, place: Place, expression: str) -> str:
    """Return where the selector of a request stands: in its class, or in itself."""
    spec = (case.view.classes.get(place.wanted.class_name) or {}).get("spec") or {}
    in_class = _expressions(spec.get("selectors") or ())
    if expression in in_class:
        index = in_class.index(expression)
        return f"deviceclass/{place.wanted.class_name}.spec.selectors[{index}]"
    own = _expressions(place.wanted.selectors)
    index = own.index(expression) if expression in own else 0
    return f"{place.path}.selectors[{index}]"


def _expressions(selectors: Iterable[JsonObject]) -> list[str]:
    return [str((it.get("cel") or {}).get("expression", "")) for it in selectors]


def _read_values(expression: str, device: Device) -> Iterator[str]:
    """Say what the device has under the names that *expression* reads."""
    words = set(re.findall(r"\w+", expression))
    for name, attribute in device.attributes.items():
        if name.rpartition("/")[2] in words:
            yield f"{name} is {_text(attribute.value)}"
    for name, capacity in device.capacity.items():
        if name.rpartition("/")[2] in words:
            yield f"{name} is {capacity.value}"
    if "driver" in words:
        yield f"driver is {device.id.driver}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _asked(value: str, place: Place, capacity: str) -> str:
    """Say what was asked beside what it was rounded to, which *value* has."""
    asked = place.wanted.capacity.get(capacity)
    takes = value.removeprefix("asked ")
    if asked is None:
        return f"not asked for, which takes {takes}"
    return value if str(asked) == takes else f"asked {asked}, which takes {takes}"
