"""Which container holds which part of which GPU, by the pod's UID and the container's name.

Three sources say so, and each knows something that the others do not. The claims that are prepared
say what was granted; the pods, which container uses a claim and whether it runs; kubelet, what a
container really got, which of a claim's devices too. Of the plugin's containers the annotation of
the pod says what they were given, as it was decided, and kubelet's ids only what it counted.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from gpu.names import DRIVER
from hami import keys
from hami.deviceids import physical_uuid
from hami.devices import MigAllocation, PodDevice
from hami.migallocations import decode_mig_allocations
from hami.monitor.claims import PreparedClaim, PreparedDevice
from hami.monitor.places import Owner
from hami.monitor.podresources import ContainerResources, HeldClaim
from hami.monitor.pods import ClaimUse, NodeContainer, NodePod
from hami.poddevices import decode_pod_devices
from hami.reading import Undecodable

ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
_MIG: Final = "MIG-"


class Mode(StrEnum):
    """How a container holds a device."""

    SHARE = "share"
    WHOLE = "whole"
    MIG = "mig"
    ADMIN = "admin"
    """For looking at it: it counts as held by nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDevice:
    """A device, or a part of one, that a container holds."""

    uuid: str
    """NVML's text, as other exporters have it."""
    parent_uuid: str
    """Of the physical GPU."""
    mode: Mode
    share_id: str = ""
    memory_mib: int | None = None
    """What was granted; `None` where nobody has said."""
    cores_percent: int | None = None
    instance: MigAllocation | None = None
    """What HAMi's scheduler says of a MIG device that it gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A container, and what it holds by one claim or from the plugin."""

    pod: NodePod
    container: str
    running: bool
    claim: str = ""
    """Name of the claim; empty for what the device plugin gave."""
    devices: tuple[HeldDevice, ...]
    region: Path | None
    """`None` where nothing is limited."""


class Regions(NamedTuple):
    """Where regions are, by who uses them."""

    of_claim: Callable[[str], Path | None]
    of_container: Callable[[Owner], Path | None]


Told = Mapping[tuple[str, str, str], ContainerResources]
"""What kubelet says, by namespace, pod and container."""


def told_by(resources: Iterable[ContainerResources]) -> Told:
    """Return what kubelet says of each container."""
    return {(each.namespace, each.pod, each.container): each for each in resources}


def holders(
    pods: Iterable[NodePod],
    claims: Iterable[PreparedClaim],
    told: Told,
    *,
    regions: Regions,
    resources: frozenset[str] = frozenset(),
) -> tuple[Holder, ...]:
    """Return what each container holds; *resources* are the device plugin's."""
    by_name: dict[tuple[str, str], list[PreparedClaim]] = {}
    for claim in claims:
        by_name.setdefault((claim.namespace, claim.name), []).append(claim)
    found: list[Holder] = []
    for pod in pods:
        for position, container in enumerate(pod.containers):
            said = told.get((pod.namespace, pod.name, container.name))
            found += _by_claims(pod, container, by_name, said, regions)
            found += _by_plugin(pod, position, said, regions, resources)
    return tuple(found)


def _by_claims(
    pod: NodePod,
    container: NodeContainer,
    claims: Mapping[tuple[str, str], list[PreparedClaim]],
    said: ContainerResources | None,
    regions: Regions,
) -> Iterator[Holder]:
    told = said.claims if said is not None else ()
    held = {each.name: each for each in told if each.namespace == pod.namespace}
    names = dict.fromkeys([*(each.claim for each in container.claims), *held])
    for name in names:
        claim = _prepared_for(pod, claims.get((pod.namespace, name), []))
        if claim is None:
            continue
        uses = [each for each in container.claims if each.claim == name]
        devices = _devices_of(claim, uses, held.get(name))
        if devices:
            yield Holder(
                pod=pod,
                container=container.name,
                running=container.running,
                claim=name,
                devices=tuple(map(_held_by_claim, devices)),
                region=regions.of_claim(claim.uid) if claim.limits else None,
            )


def _prepared_for(pod: NodePod, candidates: list[PreparedClaim]) -> PreparedClaim | None:
    """Return the claim that *pod* uses: an earlier one of that name may not be gone yet."""
    if len(candidates) == 1:
        return candidates[0]
    return next((each for each in candidates if pod.uid in each.pod_uids), None)


def _devices_of(
    claim: PreparedClaim, uses: list[ClaimUse], held: HeldClaim | None
) -> list[PreparedDevice]:
    """Return those devices of *claim* that the container may use, by kubelet's word if it has one.

    Kubelet tells no devices where it is too old to know them.
    """
    ours = [each for each in held.devices if each.driver == DRIVER] if held else []
    if ours:
        known = {(each.pool, each.device, each.share_id) for each in ours}
        return [each for each in claim.devices if (each.pool, each.device, each.share_id) in known]
    requests = {each.request for each in uses}
    if not uses or None in requests:
        return list(claim.devices)
    # A container may name an alternative, `main/sub`, where the record has `main`.
    mains = {request.partition("/")[0] for request in requests if request is not None}
    return [each for each in claim.devices if each.request in mains]


def _held_by_claim(device: PreparedDevice) -> HeldDevice:
    if device.admin:
        mode = Mode.ADMIN
    elif device.uuid != device.parent_uuid:
        mode = Mode.MIG
    else:
        mode = Mode.WHOLE if device.dedicated else Mode.SHARE
    return HeldDevice(
        uuid=device.uuid,
        parent_uuid=device.parent_uuid,
        mode=mode,
        share_id=device.share_id or "",
        # What is held whole was not granted by size.
        memory_mib=device.memory_mib if mode is Mode.SHARE else None,
        cores_percent=device.cores_percent if mode is Mode.SHARE else None,
    )


def _by_plugin(
    pod: NodePod,
    position: int,
    said: ContainerResources | None,
    regions: Regions,
    resources: frozenset[str],
) -> Iterator[Holder]:
    container = pod.containers[position]
    region = regions.of_container(Owner(pod.uid, container.name))
    devices = _annotated(pod, position, limited=region is not None)
    if devices is None:
        ids = said.device_ids.items() if said is not None else ()
        uuids = [physical_uuid(each) for name, some in ids if name in resources for each in some]
        mode = Mode.SHARE if region is not None else Mode.WHOLE
        devices = tuple(
            HeldDevice(uuid=uuid, parent_uuid=uuid, mode=Mode.MIG if _MIG in uuid else mode)
            for uuid in dict.fromkeys(uuids)
        )
    if devices or region is not None:
        yield Holder(
            pod=pod,
            container=container.name,
            running=container.running,
            devices=devices,
            region=region,
        )


def _annotated(pod: NodePod, position: int, *, limited: bool) -> tuple[HeldDevice, ...] | None:
    """Return what the container was given by the pod's annotation; `None` if that does not say."""
    text = pod.annotations.get(ALLOCATED)
    if text is None:
        return None
    slots = decode_pod_devices(text, len(pod.containers))
    if isinstance(slots, Undecodable):
        return None
    instances = decode_mig_allocations(pod.annotations.get(keys.MIG_ALLOCATIONS, ""))
    by_place = {
        each.device_index: each
        for each in (() if isinstance(instances, Undecodable) else instances)
        if each.container_index == position
    }
    return tuple(
        _held_by_plugin(device, by_place.get(place), limited=limited)
        for place, device in enumerate(slots[position])
    )


def _held_by_plugin(
    device: PodDevice, instance: MigAllocation | None, *, limited: bool
) -> HeldDevice:
    parent = physical_uuid(device.uuid)
    uuid = parent
    mode = Mode.SHARE if limited else Mode.WHOLE
    if instance is not None and instance.mig_uuid is not None:
        uuid, mode = instance.mig_uuid, Mode.MIG
    elif device.uuid != parent or _MIG in device.uuid:
        mode = Mode.MIG
    return HeldDevice(
        uuid=uuid,
        parent_uuid=parent,
        mode=mode,
        memory_mib=device.memory_mib,
        cores_percent=device.cores,
        instance=instance,
    )
