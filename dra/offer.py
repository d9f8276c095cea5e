"""What a node offers at one moment: its devices, what is wrong with each, and what is held back.

A device that should get no new work is tainted and not removed: consumers account for what claims
hold by the published device, and a device that comes and goes looks like another one each time
(kubernetes/kubernetes: a device that is removed while allocated breaks the scheduler's sums). So

- what ails a readable device becomes a taint, with the reason as its value;
- a GPU that NVML can name but not read keeps the device that the server has, tainted;
- a GPU that is gone keeps it as long as a claim holds it, tainted, and is withdrawn afterwards;
- where the driver as a whole does not answer, everything published is tainted;
- what somebody else on the node offers too is tainted, for two bookkeepers know not of each other;
- where the server drops taints, what would have had one is withdrawn.

All of it is computed from what is there now; nothing is remembered.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dra.devicehealth import DeviceHealth
from dra.devices import Noted, SharingPolicy, build_devices
from dra.filllevel import without_level
from dra.rivals import Rival
from gpu.health import code_of
from gpu.model import Ailment, GpuUuid, Inventory
from gpu.names import ATTRIBUTE_PCI_BUS_ID, DRIVER, device_name
from gpu.refusal import Refusal
from kube.objects import JsonObject

TAINT_UNHEALTHY = f"{DRIVER}/unhealthy"
TAINT_DUAL = f"{DRIVER}/dual-advertised"

GONE = "GpuGone"

_CERTAIN = frozenset({GONE, "GpuIsLost", "GpuNotFound", "ResetRequired"})
"""A call can fail once, for want of time or memory, without anything being wrong with a GPU."""

_NOT_IN_VALUE = re.compile(r"[^A-Za-z0-9.]+")
_VALUE_MAX = 63


class Effect(StrEnum):
    """What an unhealthy device's taint does (resource/v1: `DeviceTaintEffect`)."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRules:
    """The administrator's part."""

    sharing: SharingPolicy = field(default_factory=SharingPolicy)
    unhealthy_effect: Effect = Effect.NO_SCHEDULE
    """`NoExecute` has the pods that use a device evicted, but not for a call that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The node as it is now."""

    inventory: Inventory | None
    """The last that was read; `None` when there was none yet."""
    failure: Ailment | None = None
    """Why the GPUs cannot be read any more; its UUID says nothing."""
    held: frozenset[str] = frozenset()
    """Published names of the devices that prepared claims hold."""
    rivals: Mapping[GpuUuid, Rival] = field(default_factory=dict)
    """Who else offers a device, by its UUID."""
    published: Mapping[str, JsonObject] = field(default_factory=dict)
    """The devices that the server has now, by name."""

    @property
    def is_known(self) -> bool:
        """Tell whether there is anything to offer, or to say of what is offered already."""
        return self.inventory is not None or (self.failure is not None and bool(self.published))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the API server keeps of a slice."""

    sharing: bool
    taints: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """The devices to publish, in the order in which the scheduler shall try them, and the rest."""

    devices: tuple[JsonObject, ...]
    withheld: tuple[Noted, ...] = ()
    """There, but not offered."""
    tainted: tuple[Noted, ...] = ()
    """Offered for no new work."""
    health: tuple[DeviceHealth, ...] = ()
    """Of all published devices, and of those that claims hold."""
    has_gone: bool = False
    """Something is offered only because a claim holds it."""


def make_offer(situation: Situation, *, kept: Kept, rules: OfferRules) -> Offered:
    """Return what the node offers in *situation* to a server that keeps what *kept* says."""
    withheld: tuple[Noted, ...] = ()
    devices: list[JsonObject] = []
    if situation.inventory is not None and situation.failure is None:
        found = build_devices(situation.inventory, sharing_kept=kept.sharing, policy=rules.sharing)
        devices, withheld = list(found.devices), found.withheld
    known = {device["name"] for device in devices} | {device_name(n.uuid) for n in withheld}
    causes = {device["name"]: _ailment(device, situation) for device in devices}
    carried = dict(_carried(situation, known))
    causes |= carried
    devices += [_bare(situation.published[name]) for name in carried]
    # Where the device was, whatever became of it: the order of a stable node never changes.
    devices.sort(key=_bus)
    marked = [(device, _marks(device, causes[device["name"]], situation)) for device in devices]
    ill = tuple(mark for _, marks in marked for mark in marks)
    return Offered(
        devices=tuple(
            _tainted(device, causes[device["name"]], situation, rules)
            for device, marks in marked
            if kept.taints or not marks
        ),
        withheld=withheld if kept.taints else (*withheld, *ill),
        tainted=ill if kept.taints else (),
        health=tuple(_health(device, causes[device["name"]]) for device in devices),
        has_gone=any(cause.code == GONE for cause in carried.values()),
    )


def _ailment(device: JsonObject, situation: Situation) -> Ailment | None:
    """Return the first of what ails *device* or the GPU that it is a part of."""
    assert situation.inventory is not None  # noqa: S101  # it is where the device is from
    uuids = _uuids(device)
    return next((each for each in situation.inventory.ailments if each.uuid in uuids), None)


def _carried(situation: Situation, known: set[str]) -> Iterator[tuple[str, Ailment]]:
    """Yield the published devices to keep although they were not found, with the reason."""
    for name, device in situation.published.items():
        if name in known:
            continue
        if situation.failure is not None:
            yield name, situation.failure
        elif (fault := _fault(device, situation)) is not None:
            yield name, fault
        elif situation.inventory is not None and name in situation.held:
            uuid = GpuUuid(_text(device, "uuid"))
            yield name, Ailment(uuid=uuid, code=GONE, message="NVML does not list it any more")


def _fault(device: JsonObject, situation: Situation) -> Ailment | None:
    uuids = _uuids(device)
    for fault in situation.inventory.faults if situation.inventory else ():
        if fault.uuid in uuids:
            message = f"{fault.call} failed with {fault.reason}"
            return Ailment(uuid=fault.uuid, code=code_of(fault.reason), message=message)
    return None


def _marks(device: JsonObject, cause: Ailment | None, situation: Situation) -> list[Noted]:
    uuid = GpuUuid(_text(device, "uuid"))
    marks: list[Noted] = []
    if cause is not None:
        refusal = Refusal(
            code=cause.code,
            field="device",
            value=uuid,
            limit=f"it gets no new work: {cause.message}",
            remedy="the others are offered; reset or replace this one",
        )
        marks.append(Noted(uuid=uuid, refusal=refusal))
    rival = _rival(device, situation)
    if rival is not None:
        refusal = Refusal(
            code="DualAdvertised",
            field="device",
            value=uuid,
            limit=f"{rival.message}, and neither knows what the other gives away",
            remedy="take it from one of the two, or set --allow-dual",
        )
        marks.append(Noted(uuid=uuid, refusal=refusal))
    return marks


def _tainted(
    device: JsonObject, cause: Ailment | None, situation: Situation, rules: OfferRules
) -> JsonObject:
    taints: list[JsonObject] = []
    if cause is not None:
        effect = rules.unhealthy_effect if _is_certain(cause, situation) else Effect.NO_SCHEDULE
        taints.append(_taint(TAINT_UNHEALTHY, cause.code, effect))
    rival = _rival(device, situation)
    if rival is not None:
        # Never more: the rival's pods would not be evicted either.
        taints.append(_taint(TAINT_DUAL, rival.source, Effect.NO_SCHEDULE))
    return device | {"taints": taints} if taints else device


def _is_certain(cause: Ailment, situation: Situation) -> bool:
    """Tell whether *cause* is worth the end of what runs."""
    found = situation.inventory.ailments if situation.inventory else ()
    return cause.code in _CERTAIN or cause in found


def _taint(key: str, value: str, effect: Effect) -> JsonObject:
    label = _NOT_IN_VALUE.sub("-", value)[:_VALUE_MAX].strip("-.")
    return {"key": key, "value": label, "effect": effect.value}


def _health(device: JsonObject, cause: Ailment | None) -> DeviceHealth:
    name = device["name"]
    if cause is None:
        return DeviceHealth(name=name, healthy=True)
    return DeviceHealth(name=name, healthy=False, code=cause.code, message=cause.message)


def _rival(device: JsonObject, situation: Situation) -> Rival | None:
    return situation.rivals.get(GpuUuid(_text(device, "uuid")))


def _bare(device: JsonObject) -> JsonObject:
    """Return *device* as it would be built, without what depends on the moment."""
    return without_level({key: value for key, value in device.items() if key != "taints"})


def _uuids(device: JsonObject) -> set[str]:
    """Return the UUIDs of *device* and of the GPU that it is, or is a part of."""
    return {_text(device, "uuid"), _text(device, "parentUUID")}


def _bus(device: JsonObject) -> str:
    return _text(device, ATTRIBUTE_PCI_BUS_ID)


def _text(device: JsonObject, attribute: str) -> str:
    return str(device.get("attributes", {}).get(attribute, {}).get("string", ""))
