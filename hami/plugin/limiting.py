"""What a container is limited to: nothing, or each of its GPUs.

HAMi-core goes by the order in which CUDA numbers the GPUs of a container, so once one of them is a
share all have limits. Who has whole GPUs shares with nobody: what would be loaded into his programs
could only stand in their way (NCCL and vLLM hang with it: HAMi#1764, HAMi#2641).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cdi.enforcement import CORES_ALL, CorePolicy, DeviceLimit
from gpu.refusal import Refusal, RefusedError
from hami.devices import PodDevice, RegisteredDevice
from hami.plugin.model import Grant

ANY_NAMESPACE: Final = "*"
_PARTITION: Final = "MIG-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRules:
    """What an administrator decides about limits."""

    log_level: int | None = None
    """HAMi-core's; `None` leaves it to the library."""
    core_policy: CorePolicy = "default"
    unlimited_namespaces: frozenset[str] = frozenset()
    """Where a container may take a share and opt out of its limits; `*` stands for all."""

    def may_be_unlimited(self, namespace: str) -> bool:
        """Tell whether containers of *namespace* may opt out."""
        return not self.unlimited_namespaces.isdisjoint({ANY_NAMESPACE, namespace})


def by_gpu(grant: Grant) -> tuple[PodDevice, ...]:
    """Return the devices of *grant*, each GPU once: of several shares of one the sum counts."""
    found = dict[str, PodDevice]()
    for device in grant.devices:
        before = found.get(device.uuid)
        if before is not None:
            # Without a core limit on one of them there is none.
            has_limits = before.cores and device.cores
            device = PodDevice(  # noqa: PLW2901
                uuid=device.uuid,
                type=device.type,
                memory_mib=before.memory_mib + device.memory_mib,
                cores=before.cores + device.cores if has_limits else 0,
            )
        found[device.uuid] = device
    return tuple(found.values())


def limits_of(
    grant: Grant, cards: Mapping[str, RegisteredDevice], rules: LimitRules
) -> tuple[DeviceLimit, ...] | None:
    """Return the limits of each GPU in the order of *grant*, `None` for a container without any.

    *cards* are the node's by UUID. `RefusedError` for what HAMi-core would read as no limit, and
    for a GPU that the node does not have.
    """
    devices = by_gpu(grant)
    # Of each, for one that the node does not have is refused wherever it stands.
    wholes = [_is_whole(device, cards) for device in devices]
    if all(wholes):
        return None
    if grant.disables_control and rules.may_be_unlimited(grant.namespace):
        return None
    return tuple(
        DeviceLimit(
            memory_mib=device.memory_mib,
            cores_percent=min(device.cores, CORES_ALL) or CORES_ALL,
        )
        for device in devices
    )


def _is_whole(device: PodDevice, cards: Mapping[str, RegisteredDevice]) -> bool:
    """Tell whether nobody else can have a part of *device*."""
    if device.uuid.startswith(_PARTITION):
        return True
    card = cards.get(device.uuid)
    if card is None:
        raise RefusedError(
            Refusal(
                code="DeviceGone",
                field="devices",
                value=device.uuid,
                limit="the node offers no such GPU",
            )
        )
    # No cores are no limit on them, and without memory left nobody comes beside.
    has_cores = device.cores == 0 or device.cores >= min(card.cores, CORES_ALL)
    return has_cores and device.memory_mib >= card.memory_mib
