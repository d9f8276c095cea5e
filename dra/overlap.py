"""The last line of defence against double booking: may this claim hold what it was given?

The scheduler guarantees it in the normal case, but the control plane frees the device of a
force-deleted pod while its containers still run (Kubernetes documents that as the driver's
business), and schedulers up to 1.35 could give one device twice. What is prepared on this node is
the truth here: a claim that does not fit beside it waits, and kubelet asks again.
"""

from collections.abc import Iterable, Mapping

from dra.grants import CORES_WHOLE, NodeDevice
from dra.record import PreparedClaim, PreparedDevice
from gpu.refusal import Refusal, RefusedError

_WAIT = "kubelet tries again; the claim named here has to be released first"


def check(
    claim: PreparedClaim,
    others: Iterable[PreparedClaim],
    on_node: Mapping[str, NodeDevice],
    shares_per_gpu: Mapping[str, int],
) -> None:
    """Raise `RefusedError` unless *claim* fits beside *others* on each of its devices.

    *shares_per_gpu* gives the number of shares offered by device name.
    """
    gpus = {device.parent_uuid for device in claim.devices}
    other_devices = [
        (f"{other.namespace}/{other.name}", device)
        for other in others
        if other.uid != claim.uid
        for device in other.devices
        if device.parent_uuid in gpus and not device.admin
    ]
    for name in dict.fromkeys(device.device for device in claim.devices if not device.admin):
        mine = [each for each in claim.devices if each.device == name and not each.admin]
        theirs = [(by, each) for by, each in other_devices if each.device == name]
        for by, device in theirs:
            if device.dedicated or any(each.dedicated for each in mine):
                raise _in_use(mine[0], by)
        _refuse_partition_overlap(mine[0], other_devices)
        _refuse_excess(mine, theirs, on_node[name], shares_per_gpu[name])


def _refuse_partition_overlap(
    mine: PreparedDevice, others: Iterable[tuple[str, PreparedDevice]]
) -> None:
    """Refuse a MIG device of a GPU that is held whole or in shares, and the reverse."""
    partition = mine.uuid != mine.parent_uuid
    for by, other in others:
        same_gpu = other.parent_uuid == mine.parent_uuid
        if same_gpu and partition != (other.uuid != other.parent_uuid):
            raise _in_use(mine, by)


def _refuse_excess(
    mine: list[PreparedDevice],
    theirs: list[tuple[str, PreparedDevice]],
    node_device: NodeDevice,
    shares_offered: int,
) -> None:
    if node_device.mig is not None or all(device.dedicated for device in mine):
        return
    everyone = [*mine, *(device for _, device in theirs)]
    by = theirs[0][0] if theirs else "this claim"
    sums = (
        ("memory", "MiB", sum(each.memory_mib for each in everyone), node_device.gpu.memory_mib),
        ("cores", "percent", sum(each.cores_percent for each in everyone), CORES_WHOLE),
        ("shares", "shares", sum(each.shares for each in everyone), shares_offered),
    )
    for capacity, unit, total, offered in sums:
        if total > (offered or 0):
            raise RefusedError(
                Refusal(
                    code="CapacityExceeded",
                    field=f"status.allocation.devices.results[{mine[0].request}].{capacity}",
                    value=f"{total} {unit} with what `{by}` and others hold",
                    limit=f"device `{mine[0].device}` has {offered} {unit}",
                    remedy=_WAIT,
                )
            )


def _in_use(mine: PreparedDevice, by: str) -> RefusedError:
    return RefusedError(
        Refusal(
            code="DeviceInUse",
            field=f"status.allocation.devices.results[{mine.request}].device",
            value=mine.device,
            limit=f"is still held by claim `{by}` on this node",
            remedy=_WAIT,
        )
    )
