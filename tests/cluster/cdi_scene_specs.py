"""The CDI specs that the real renderer makes for claims on simulated nodes of every board."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from cdi.hooks import COMPAT, NO_HOOKS, NO_NODE_CHANGES, HookStrategy
from dra.deviceedits import Scan
from dra.record import GpuLimit, LimitOptions, PreparedClaim, PreparedDevice
from dra.render import SpecRenderer
from gpu import driver
from gpu.model import Gpu, GpuUuid, Inventory, MigDevice, PciBusId
from sim import boards, driverroot, gpufile, hardware
from tests.dra.builders import BOOT_ID, LIBRARY, a_gpu, an_inventory

HOOKS: Final = {
    "no hooks": NO_HOOKS,
    "nvidia-cdi-hook": HookStrategy(binary="/usr/bin/nvidia-cdi-hook"),
    "later hooks": HookStrategy(binary="/usr/bin/nvidia-cdi-hook", extra=(COMPAT, NO_NODE_CHANGES)),
    "nvidia-ctk": HookStrategy(binary="/usr/bin/nvidia-ctk"),
}
_UID: Final = "c1a10000-0000-4000-8000-0000000000{:02x}"
_SHARE: Final = "5ba7e000-0000-4000-8000-0000000000{:02x}"


def scene_specs(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and text for every board, every way of hooks and every shape of claim."""
    for board in boards.names():
        inventory, found = _node(board, root / board)
        for hooks, strategy in HOOKS.items():
            renderer = _renderer(found, inventory, strategy, root / board)
            for shape, claim in _claims(inventory):
                yield f"{board}, {hooks}, {shape}", renderer.render(claim)


def _node(board: str, root: Path) -> tuple[Inventory, driver.DriverRoot]:
    """Write a node with three GPUs of *board*, the last one split where it can be."""
    table = boards.board(board).mig
    split = f"\n- {{profile: {board}, mig: [{table.profiles[0].name}]}}" if table else ""
    file = gpufile.parse(f"gpus:\n- {{profile: {board}, count: 2}}{split}\n")
    driverroot.build(file, root)
    gpus = [_gpu(one) for one in hardware.gpus(file)]
    inventory = replace(an_inventory(*gpus), driver_version=file.driver.version)
    return inventory, driver.find(host_root=root)


def _gpu(gpu: hardware.SimGpu) -> Gpu:
    uuid = GpuUuid(gpu.uuid)
    devices = tuple(
        MigDevice(
            uuid=GpuUuid(one.uuid),
            parent_uuid=uuid,
            profile=one.profile.name,
            gpu_instance_id=one.gpu_instance_id,
            compute_instance_id=one.compute_instance_id,
            memory_mib=one.profile.memory_mib,
            multiprocessors=one.profile.multiprocessors,
        )
        for one in gpu.mig
    )
    return a_gpu(
        gpu.minor,
        uuid=uuid,
        pci_bus_id=PciBusId(gpu.pci_bus_id),
        mig_enabled=bool(devices),
        mig_devices=devices,
    )


def _renderer(
    found: driver.DriverRoot, inventory: Inventory, strategy: HookStrategy, root: Path
) -> SpecRenderer:
    scan = Scan(
        proc_root=root / "proc",
        sys_root=root / "sys",
        hooks=lambda _root: strategy,
        device_numbers=driverroot.numbers_of,
    )
    edits = scan(found, inventory)
    return SpecRenderer(
        common=edits.common,
        by_uuid=edits.by_uuid,
        library=lambda _sha256: LIBRARY,
        region_host_path=lambda uid: f"/run/gpuslice/claims/{uid}/region.cache",
    )


def _claims(inventory: Inventory) -> Iterator[tuple[str, PreparedClaim]]:
    first, second, *rest = inventory.gpus
    yield "a share", _claim(_device(first.uuid, share=1), limited=True)
    two = _device(first.uuid, share=1), _device(second.uuid, share=2)
    yield "shares of two GPUs", _claim(*two, limited=True)
    same = _device(first.uuid, share=1), _device(first.uuid, share=2)
    yield "two shares of a GPU", _claim(*same, limited=True)
    yield "a whole GPU", _claim(_device(first.uuid))
    yield "two whole GPUs", _claim(_device(first.uuid), _device(second.uuid))
    for gpu in rest:
        for mig in gpu.mig_devices:
            yield "a MIG device", _claim(_device(mig.uuid, gpu.uuid))
            mixed = _device(mig.uuid, gpu.uuid), _device(first.uuid, share=1)
            yield "a MIG device and a share", _claim(*mixed, limited=True)


def _device(
    uuid: GpuUuid, parent: GpuUuid | None = None, *, share: int | None = None
) -> PreparedDevice:
    return PreparedDevice(
        request="gpu",
        pool="node",
        device=uuid.lower(),
        share_id=None if share is None else _SHARE.format(share),
        uuid=uuid,
        parent_uuid=parent or uuid,
        dedicated=share is None,
        admin=False,
        memory_mib=4000,
        cores_percent=20,
        shares=1,
    )


def _claim(*devices: PreparedDevice, limited: bool = False) -> PreparedClaim:
    uuids = dict.fromkeys(device.uuid for device in devices)
    limits = tuple(GpuLimit(uuid=uuid, memory_mib=4000, cores_percent=20) for uuid in uuids)
    return PreparedClaim(
        uid=_UID.format(len(devices)),
        namespace="default",
        name="claim",
        resource_version="1",
        allocation="0",
        boot_id=BOOT_ID,
        devices=devices,
        limits=limits if limited else (),
        options=LimitOptions(library_sha256=LIBRARY.sha256) if limited else None,
    )
