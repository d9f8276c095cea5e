"""Other GPUs for one container of a pod that is placed already.

When kubelet's topology manager allows a container other GPUs than it was given, HAMi's device
plugin asks the scheduler to choose again among those (HAMi after v2.10: `/refit`). The policies
of the pod hold as ever, the other containers keep what they have, and instances do not move.
"""

import time
from collections.abc import Collection, Mapping

from extender.accounting import MIG_MODE, Ledger, collapse, quota_amounts
from extender.fitting import order, wording
from extender.fitting.nodefit import copies, node_policy
from extender.fitting.nvidia import NvidiaWalk
from extender.fitting.reasons import Reason, Tally
from extender.fitting.room import QuotaRoom
from extender.fitting.scene import Refused, Scene
from extender.fitting.scoring import EVEN, device_score
from extender.model import Ask, DeviceUsage, Misfit, NodeUsage, Policies
from hami.containers import ContainerKind
from hami.devices import PodDevice, Slots
from hami.requests import NVIDIA


def refit(  # noqa: PLR0913  the pod's place is part of the question
    node: NodeUsage,
    ask: Ask,
    policies: Policies,
    room: QuotaRoom,
    *,
    slots: Slots,
    position: int,
    allowed: Collection[str],
) -> Slots | Misfit:
    """Return the NVIDIA slots of a pod with other GPUs at *position*, or why there are none.

    *node* and *room* are without the pod; *slots* is what it has, *allowed* are the UUIDs to
    choose from.
    """
    request = ask.valid.requests[position].nvidia if position < len(slots) else None
    if request is None:
        return Misfit(node=node.name, reasons={str(Reason.TOO_FEW_DEVICES): 1}, devices=0)
    scene = _scene(node, ask, policies, room, position, frozenset(allowed))
    usages = _beside(node, ask, slots, position)
    weights = ask.valid.preferences.scoring_weights or EVEN
    requests = ask.valid.requests[position].devices
    scores = [device_score(usage, requests, weights) for usage in usages]
    found = NvidiaWalk(scene, request).fit(scene.policy.worst_first(usages, scores))
    if isinstance(found, Refused):
        refused = found
    else:
        given = tuple(pick.given for pick in found)
        moved = (*slots[:position], given, *slots[position + 1 :])
        overfull = _overfull(node, ask, room, moved)
        if overfull is None:
            return moved
        refused = overfull
    return Misfit(
        node=node.name,
        reasons=dict(refused.tally),
        devices=refused.devices,
        need=wording.need(request),
        have=wording.have(usages),
    )


def _scene(
    node: NodeUsage,
    ask: Ask,
    policies: Policies,
    room: QuotaRoom,
    position: int,
    allowed: frozenset[str],
) -> Scene:
    text = order.policy_text(ask.annotations, policies.gpu_policy)
    return Scene(
        node=node,
        ask=ask,
        word=NVIDIA,
        vendor=None,
        policy=order.resolved(text, numa_bind=ask.valid.preferences.numa_bind),
        node_policy=node_policy(ask, policies),
        room=room,
        clock_ns=time.time_ns,
        ledger=Ledger(NVIDIA),
        allowed=allowed,
        taken=[()] * position,
        ends=_ends(ask, position),
    )


def _ends(ask: Ask, position: int) -> bool:
    return ask.valid.requests[position].container.kind is ContainerKind.INIT


def _beside(node: NodeUsage, ask: Ask, slots: Slots, position: int) -> list[DeviceUsage]:
    """Return the GPUs with what the containers take that run beside the one at *position*."""
    usages = copies(node.devices.get(NVIDIA, ()))
    by_uuid = {usage.device.uuid: usage for usage in usages}
    last = position if _ends(ask, position) else len(slots)
    for index, devices in enumerate(slots[:last]):
        if index != position and not _ends(ask, index):
            for each in devices:
                _take(by_uuid, each)
    return usages


def _take(by_uuid: Mapping[str, DeviceUsage], given: PodDevice) -> None:
    usage = by_uuid.get(given.uuid)
    if usage:
        usage.used_slots += 1
        usage.used_mib += given.memory_mib
        usage.used_cores += given.cores


def _overfull(node: NodeUsage, ask: Ask, room: QuotaRoom, moved: Slots) -> Refused | None:
    """Return what the pod as a whole would exceed: a sidecar also runs beside init containers."""
    requests = ask.valid.requests
    init_count = sum(each.container.section == "initContainers" for each in requests)
    sidecars = [
        index for index, each in enumerate(requests) if each.container.kind is ContainerKind.SIDECAR
    ]
    uses = collapse({NVIDIA: moved}, init_count, sidecars)[NVIDIA]
    tally = Tally()
    for usage in node.devices.get(NVIDIA, ()):
        use = uses.get(usage.device.uuid)
        if use is None or usage.device.mode == MIG_MODE:
            continue
        if usage.used_slots + use.slots > usage.device.count:
            tally.count(Reason.SLOTS_EXHAUSTED)
        elif usage.used_mib + use.memory_mib > usage.device.memory_mib:
            tally.count(Reason.TOO_LITTLE_MEMORY)
        elif usage.used_cores + use.cores > usage.device.cores:
            tally.count(Reason.TOO_FEW_CORES)
    if not tally and not room.has_room(NVIDIA, *quota_amounts(NVIDIA, uses)):
        tally.count(Reason.QUOTA)
    return Refused(tally, len(node.devices.get(NVIDIA, ()))) if tally else None
