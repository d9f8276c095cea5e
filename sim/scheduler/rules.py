"""Taints that an administrator puts on devices from outside their slices (DeviceTaintRule).

The scheduler adds them to the devices' own before it looks at any (kubernetes:
dynamic-resource-allocation/resourceslice/tracker). A rule with an empty selector is for all
devices; one without a selector is for none, and up to 1.36 for all too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kube.objects import JsonObject
from sim.scheduler.devices import Device, DeviceId, Slice
from sim.scheduler.features import Features


def tainted(
    slices: Iterable[Slice], rules: Sequence[JsonObject], features: Features
) -> list[Slice]:
    """Return *slices* with the taints that *rules* add; those without any stay the same."""
    known = rules if features.taint_rules else ()
    counted = [rule for rule in known if _has_selector(rule) or not features.rules_need_selector]
    return [_tainted(part, counted) for part in slices]


def chooses(rule: JsonObject, device: DeviceId) -> bool:
    """Tell whether the selector of *rule* is for *device*."""
    selector = rule["spec"].get("deviceSelector") or {}
    wanted = ((selector.get(field), getattr(device, field)) for field in DeviceId._fields)
    return all(named is None or named == own for named, own in wanted)


def _has_selector(rule: JsonObject) -> bool:
    return rule["spec"].get("deviceSelector") is not None


def _tainted(part: Slice, rules: Sequence[JsonObject]) -> Slice:
    devices = tuple(_device(made, rules) for made in part.devices)
    same = all(one is other for one, other in zip(devices, part.devices, strict=True))
    return part if same else replace(part, devices=devices)


def _device(made: Device, rules: Sequence[JsonObject]) -> Device:
    taints = tuple(rule["spec"]["taint"] for rule in rules if chooses(rule, made.id))
    return replace(made, taints=made.taints + taints) if taints else made
