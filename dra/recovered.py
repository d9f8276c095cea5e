"""A claim's record made from its CDI spec, for a claim that the API server cannot tell about.

Its containers may still run, so what it holds has to be counted, and where the spec does not say
how much that is, it is counted as all: what comes next waits rather than gets what is taken. Such
a record is never taken for the claim's present allocation, so a prepare replaces it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from cdi.recovery import RecoveredSpec
from dra.grants import CORES_WHOLE, NodeDevice
from dra.record import GpuLimit, LimitOptions, PreparedClaim, PreparedDevice
from gpu.model import GpuUuid

NOBODY = "unknown"
"""The namespace of claims of which nothing but the UID is known."""

_Held = tuple[PreparedDevice, NodeDevice | None]
"""A device as the spec names it, and as the node has it now."""

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NAME = re.compile(rf"((gpu|mig)-({_UUID}))(?:-(.+))?")


def from_spec(
    claim: tuple[str, str, str],
    spec: RecoveredSpec,
    on_node: Mapping[str, NodeDevice],
    *,
    pool: str,
    boot_id: str,
) -> PreparedClaim | None:
    """Return the record of *claim* (UID, namespace, name); `None` if its devices are unknown."""
    held: list[_Held] = []
    for name in spec.devices:
        one = _read(name, on_node, pool)
        if one is None:
            return None
        held.append(one)
    uid, namespace, claim_name = claim
    limits = _limits(spec, held)
    options = None
    if limits and spec.library_sha256 is not None:
        options = LimitOptions(
            library_sha256=spec.library_sha256,
            priority=spec.priority,
            core_policy=spec.core_policy,
            log_level=spec.log_level,
        )
    return PreparedClaim(
        uid=uid,
        namespace=namespace,
        name=claim_name,
        resource_version="",
        allocation="",
        boot_id=boot_id,
        devices=tuple(_counted(held, {limit.uuid: limit for limit in limits})),
        limits=limits,
        options=options,
    )


def _limits(spec: RecoveredSpec, held: list[_Held]) -> tuple[GpuLimit, ...]:
    """Return the limits of *spec* with the GPUs that they are for: those of *held* in bus order."""
    gpus = {device.parent_uuid: found for device, found in held}
    in_order = sorted(gpus, key=lambda uuid: found.gpu.pci_bus_id if (found := gpus[uuid]) else "")
    if len(in_order) != len(spec.limits):
        # A limit that belongs to no GPU still has to be in the spec, where its place counts.
        in_order = [GpuUuid("")] * len(spec.limits)
    return tuple(
        GpuLimit(uuid=uuid, memory_mib=limit.memory_mib, cores_percent=limit.cores_percent)
        for uuid, limit in zip(in_order, spec.limits, strict=True)
    )


def _counted(held: list[_Held], limits: Mapping[GpuUuid, GpuLimit]) -> Iterator[PreparedDevice]:
    """Yield the devices of *held* with what they hold; shares of one GPU have one limit."""
    seen: set[GpuUuid] = set()
    for device, found in held:
        whole_mib = ((found.mig or found.gpu).memory_mib or 0) if found else 0
        limit = limits.get(device.parent_uuid)
        if device.dedicated or limit is None:
            counted = replace(device, memory_mib=whole_mib, cores_percent=CORES_WHOLE)
        else:
            memory_mib, cores_percent = limit.memory_mib, limit.cores_percent
            counted = replace(device, memory_mib=memory_mib, cores_percent=cores_percent)
        if device.share_id is not None and device.parent_uuid in seen:
            counted = device
        seen.add(device.parent_uuid)
        yield counted


def _read(name: str, on_node: Mapping[str, NodeDevice], pool: str) -> _Held | None:
    """Return what *name* holds, not counted yet, and the device if the node has it now."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    published, kind, uuid, share_id = parts.groups()
    found = on_node.get(published)
    if found is not None:
        own, parent = (found.mig or found.gpu).uuid, found.gpu.uuid
    else:
        # Nobody else can be given it as long as it is away.
        own = parent = GpuUuid(f"{kind.upper()}-{uuid}")
    device = PreparedDevice(
        request="",
        pool=pool,
        device=published,
        share_id=share_id,
        uuid=own,
        parent_uuid=parent,
        dedicated=share_id is None,
        admin=False,
        memory_mib=0,
        cores_percent=0,
        shares=1,
    )
    return device, found
