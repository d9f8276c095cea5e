"""What a container needs for each device of the node, however that is found out.

By default the driver's files are scanned here. Where that does not understand a node (WSL, Tegra),
the administrator can name NVIDIA's own generator instead, which then also brings its hooks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from cdi.delegate import Generator, generate
from cdi.edits import ContainerEdits
from cdi.hooks import HookStrategy
from cdi.nvidia import (
    DriverTree,
    Surroundings,
    character_device,
    common_edits,
    gpu_edits,
    mig_edits,
    scan,
)
from gpu.driver import DriverRoot
from gpu.model import GpuUuid, Inventory
from gpu.refusal import Refusal, RefusedError

log = structlog.get_logger(__name__)

DeviceNumbers = Callable[[Path], tuple[int, int] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEdits:
    """The edits that do not depend on a claim."""

    common: ContainerEdits
    by_uuid: Mapping[GpuUuid, ContainerEdits | Refusal]
    """Of each GPU that is offered itself, and of each MIG device; or why it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Finds the edits in the driver's files."""

    proc_root: Path
    sys_root: Path
    hooks: Callable[[DriverRoot], HookStrategy]
    device_numbers: DeviceNumbers = character_device
    """Major and minor of a node; a simulation without the right to make nodes knows them."""

    def __call__(self, root: DriverRoot, inventory: Inventory) -> DeviceEdits:
        """Return the edits of *inventory*; raise `RefusedError` when nothing could be used."""
        tree = scan(
            root.local_path,
            host_root=root.host_path,
            driver_version=inventory.driver_version,
            surroundings=Surroundings(
                local_dev_root=root.local_dev_path,
                host_dev_root=root.host_dev_path,
                proc_root=self.proc_root,
                sys_root=self.sys_root,
                device_numbers=self.device_numbers,
            ),
        )
        hooks = self.hooks(root)
        if hooks.degraded:
            log.info("driver mounted without hooks", remedy="set hooks where an image needs them")
        by_uuid = {uuid: _edits_or_refusal(make, uuid) for uuid, make in _makers(tree, inventory)}
        return DeviceEdits(common=common_edits(tree, hooks), by_uuid=by_uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """Lets NVIDIA's generator find the edits."""

    command: tuple[str, ...]

    def __call__(self, root: DriverRoot, inventory: Inventory) -> DeviceEdits:
        """Return the edits of *inventory*; raise `DelegateError` when the generator fails."""
        generator = Generator(
            command=self.command, local_root=str(root.local_path), host_root=root.host_path
        )
        uuids = [GpuUuid(uuid) for uuid in _offered(inventory)]
        if not uuids:
            return DeviceEdits(common=ContainerEdits(), by_uuid={})
        generated = generate(generator, uuids)
        return DeviceEdits(
            common=generated.common,
            by_uuid={uuid: generated.devices[uuid] for uuid in uuids},
        )


def _offered(inventory: Inventory) -> list[GpuUuid]:
    """Return the devices that can be given: a GPU in MIG mode is only its MIG devices."""
    found: list[GpuUuid] = []
    for gpu in inventory.gpus:
        if not gpu.mig_enabled:
            found.append(gpu.uuid)
        found.extend(mig.uuid for mig in gpu.mig_devices)
    return found


def _makers(
    tree: DriverTree, inventory: Inventory
) -> list[tuple[GpuUuid, Callable[[], ContainerEdits]]]:
    makers: list[tuple[GpuUuid, Callable[[], ContainerEdits]]] = []
    for gpu in inventory.gpus:
        if not gpu.mig_enabled:
            makers.append((gpu.uuid, partial(gpu_edits, tree, gpu)))
        makers += [(mig.uuid, partial(mig_edits, tree, gpu, mig)) for mig in gpu.mig_devices]
    return makers


def _edits_or_refusal(
    make: Callable[[], ContainerEdits], uuid: GpuUuid
) -> ContainerEdits | Refusal:
    try:
        return make()
    except RefusedError as error:
        log.error("gpu not usable", uuid=uuid, reason=str(error))
        return error.refusal
