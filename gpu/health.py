"""What ails the GPUs of a node, and when that is over: plain values, no I/O.

Two things can be known of a GPU that answers all questions. The driver may advise something that
only people can do, such as a reset; that ails the GPU until the driver takes it back. And it may
have reported a critical XID. Nothing reports the end of an XID, so it has to be concluded:

- the driver advises nothing, and no critical XID came from the GPU for a while;
- or, from a driver that gives no advice: the GPU was gone and is there again.

All of it is forgotten when another driver answers, or another process asks: whoever reloads the
driver or restarts the agent has looked at the GPUs, and the driver's advice is read anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gpu import xids
from gpu.model import Ailment, Gpu, GpuFault, GpuUuid, Inventory

NO_ACTION: Final = 0
_LOST: Final = "GPU_IS_LOST"

# By number, which is part of the library's binary interface (nvmlDeviceGpuRecoveryAction_t).
_ACTIONS: Final[dict[int, tuple[str, str]]] = {
    1: ("GpuResetNeeded", "the driver asks for a reset of the GPU"),
    2: ("NodeRebootNeeded", "the driver asks for a reboot of the node"),
    3: ("DrainP2pNeeded", "the driver asks to end all traffic between this GPU and others"),
    4: ("DrainAndResetNeeded", "the GPU has lost capacity and should be drained and reset"),
    5: ("ImexRecoveryNeeded", "the driver asks to recover the IMEX domain"),
    6: ("BusResetNeeded", "the driver asks for a reset of the GPU's bus"),
    7: ("SystemRebootNeeded", "the driver asks for a reboot of the whole system"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """An XID as the driver reported it."""

    gpu_uuid: GpuUuid | None
    """`None` if the GPU that it came from cannot be named."""
    xid: int
    gpu_instance_id: int | None = None
    """The MIG partition that it hit; `None` for the whole GPU."""
    compute_instance_id: int | None = None
    """`None` for all of the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What NVML said at one moment."""

    inventory: Inventory
    """Without ailments."""
    actions: Mapping[GpuUuid, int | None]
    """The driver's advice for each GPU that was read; `None` where it gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A critical XID that was seen and is not over."""

    uuid: GpuUuid
    """Of the GPU or the MIG device that it hit."""
    gpu_uuid: GpuUuid
    xid: int
    seen_s: float
    """When it came last, by a clock that only goes forward."""
    was_gone: bool = False
    """The GPU was not there at some time since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is known of a node's GPUs besides what can be read now."""

    sightings: tuple[Sighting, ...] = ()
    """At most one of each XID for each device."""
    actions: Mapping[GpuUuid, int] = field(default_factory=dict)
    """The driver's last advice for each GPU."""
    driver_version: str = ""

    def after(
        self,
        reading: Reading,
        events: Iterable[XidEvent] = (),
        *,
        now_s: float,
        recovery_s: float,
    ) -> "History":
        """Return what is known after *reading* and the critical *events* that led to it."""
        inventory = reading.inventory
        known = self if self.driver_version == inventory.driver_version else History()
        seen = {(each.uuid, each.xid): each for each in known.sightings}
        for event in events:
            for sighting in _sightings(event, inventory, now_s):
                seen[sighting.uuid, sighting.xid] = sighting
        followed = [_followed(each, inventory) for each in seen.values()]
        return History(
            sightings=tuple(
                each
                for each in followed
                if _exists(each, inventory)
                and not is_over(
                    each,
                    latest_s=max(other.seen_s for other in followed if _same_gpu(each, other)),
                    action=reading.actions.get(each.gpu_uuid),
                    is_there=_is_there(each.gpu_uuid, inventory),
                    now_s=now_s,
                    recovery_s=recovery_s,
                )
            ),
            actions={**known.actions, **_told(reading.actions)},
            driver_version=inventory.driver_version,
        )

    def diagnosed(self, inventory: Inventory) -> Inventory:
        """Return *inventory* with what ails the devices in it."""
        readable = {gpu.uuid for gpu in inventory.gpus}
        there = readable | {mig.uuid for gpu in inventory.gpus for mig in gpu.mig_devices}
        found = [_of_xid(each) for each in self.sightings if each.uuid in there]
        found += [
            _of_action(uuid, action)
            for uuid, action in self.actions.items()
            if uuid in readable and action != NO_ACTION
        ]
        return replace(
            inventory, ailments=tuple(sorted(found, key=lambda each: (each.uuid, each.code)))
        )


def is_over(
    sighting: Sighting,
    *,
    latest_s: float,
    action: int | None,
    is_there: bool,
    now_s: float,
    recovery_s: float,
) -> bool:
    """Tell whether the GPU is well again; *latest_s* is when its last critical XID came."""
    if not is_there:
        return False
    if action is None:
        return sighting.was_gone
    return action == NO_ACTION and now_s - latest_s >= recovery_s


def code_of(reason: str) -> str:
    """Return NVML's *reason* as the code of an ailment: `GPU_IS_LOST` becomes `GpuIsLost`."""
    return "".join(part.capitalize() for part in reason.split("_"))


def _sightings(event: XidEvent, inventory: Inventory, now_s: float) -> list[Sighting]:
    if event.gpu_uuid is None:
        return []
    gpu = next((each for each in inventory.gpus if each.uuid == event.gpu_uuid), None)
    return [
        Sighting(uuid=uuid, gpu_uuid=event.gpu_uuid, xid=event.xid, seen_s=now_s)
        for uuid in _hit(event, event.gpu_uuid, gpu)
    ]


def _hit(event: XidEvent, gpu_uuid: GpuUuid, gpu: Gpu | None) -> list[GpuUuid]:
    """Return the devices that *event* is about, none if they are no more."""
    if event.gpu_instance_id is None or gpu is None or not gpu.mig_enabled:
        return [gpu_uuid]
    return [
        mig.uuid
        for mig in gpu.mig_devices
        if mig.gpu_instance_id == event.gpu_instance_id
        and event.compute_instance_id in {None, mig.compute_instance_id}
    ]


def _followed(sighting: Sighting, inventory: Inventory) -> Sighting:
    is_gone = _is_gone(sighting.gpu_uuid, inventory)
    return replace(sighting, was_gone=True) if is_gone else sighting


def _is_there(uuid: GpuUuid, inventory: Inventory) -> bool:
    return any(gpu.uuid == uuid for gpu in inventory.gpus)


def _is_gone(uuid: GpuUuid, inventory: Inventory) -> bool:
    """Tell whether the GPU is certainly away, and not merely unreadable."""
    return not _is_there(uuid, inventory) and not any(
        _may_be(fault, uuid) for fault in inventory.faults
    )


def _may_be(fault: GpuFault, uuid: GpuUuid) -> bool:
    return fault.uuid is None or (fault.uuid == uuid and fault.reason != _LOST)


def _exists(sighting: Sighting, inventory: Inventory) -> bool:
    """Tell whether the device may still be there: a partition can be removed for good."""
    gpu = next((each for each in inventory.gpus if each.uuid == sighting.gpu_uuid), None)
    if gpu is None or sighting.uuid == gpu.uuid:
        return True
    return any(mig.uuid == sighting.uuid for mig in gpu.mig_devices)


def _same_gpu(one: Sighting, other: Sighting) -> bool:
    return one.gpu_uuid == other.gpu_uuid


def _told(actions: Mapping[GpuUuid, int | None]) -> dict[GpuUuid, int]:
    return {uuid: action for uuid, action in actions.items() if action is not None}


def _of_xid(sighting: Sighting) -> Ailment:
    xid = sighting.xid
    message = f"XID {xid}: {xids.meaning(xid)}"
    return Ailment(uuid=sighting.uuid, code=f"Xid{xid}", message=message)


def _of_action(uuid: GpuUuid, action: int) -> Ailment:
    unknown = (f"RecoveryAction{action}", f"the driver asks for recovery action {action}")
    code, message = _ACTIONS.get(action, unknown)
    return Ailment(uuid=uuid, code=code, message=message)
