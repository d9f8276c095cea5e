"""Edits for NVIDIA devices, from a driver found on disk.

The set is that of `nvidia-ctk cdi generate`, with three differences: device nodes say type and
numbers (a runtime that asks the host instead loses them on `systemctl daemon-reload`), the host's
MPS socket is never passed on, and a node without which nothing works is an error here, before the
pod starts, and not one of the runtime afterwards.
"""

from cdi.edits import ContainerEdits, DeviceNode
from cdi.hooks import HookStrategy, hooks_for
from cdi.libraries import (
    binary_mounts,
    find_aliases,
    find_libraries,
    library_folders,
    library_mount,
    socket_mounts,
)
from cdi.mig import capability_nodes
from cdi.rooted import below, local
from cdi.tree import DriverTree, Surroundings, character_device, scan
from gpu.model import Gpu, MigDevice
from gpu.refusal import Refusal, RefusedError

__all__ = [
    "DriverTree",
    "Surroundings",
    "character_device",
    "common_edits",
    "gpu_edits",
    "mig_edits",
    "scan",
]

_REQUIRED = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_OPTIONAL = ("/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_PERMISSIONS = "rw"


def _node(tree: DriverTree, path: str) -> DeviceNode | None:
    numbers = tree.device_numbers(local(tree.local_dev_root, path))
    if numbers is None:
        return None
    host_path = below(tree.host_dev_root, path)
    return DeviceNode(
        path=path,
        host_path="" if host_path == path else host_path,
        type="c",
        major=numbers[0],
        minor=numbers[1],
        permissions=_PERMISSIONS,
    )


def _required_node(tree: DriverTree, path: str) -> DeviceNode:
    node = _node(tree, path)
    if node is None:
        raise RefusedError(
            Refusal(
                code="DeviceNodeMissing",
                field="nvidiaDevRoot",
                value=below(tree.host_dev_root, path),
                limit="is no character device",
                remedy="load the driver's modules, or set the root that holds dev",
            )
        )
    return node


def common_edits(tree: DriverTree, hooks: HookStrategy) -> ContainerEdits:
    """Return what every container with any GPU of this node gets; slow, so call it once."""
    libraries = find_libraries(tree)
    aliases = find_aliases(tree, libraries)
    mounts = [library_mount(tree, library.path, library.real) for library in libraries]
    if hooks.binary is None:
        mounts += [library_mount(tree, alias.path, alias.real) for alias in aliases]
    optional = (_node(tree, path) for path in _OPTIONAL)
    return ContainerEdits(
        # Keeps NVIDIA's own runtime from adding the GPUs that an image asks for by default.
        env=("NVIDIA_VISIBLE_DEVICES=void",),
        device_nodes=(
            *(_required_node(tree, path) for path in _REQUIRED),
            *(node for node in optional if node is not None),
        ),
        mounts=(*mounts, *binary_mounts(tree), *socket_mounts(tree)),
        hooks=hooks_for(
            hooks,
            links=[(alias.target, alias.path) for alias in aliases],
            folders=library_folders(tree),
            driver_version=tree.driver_version,
        ),
    )


def _dri_nodes(tree: DriverTree, gpu: Gpu) -> list[DeviceNode]:
    directory = tree.sys_root / "bus/pci/devices" / gpu.pci_bus_id / "drm"
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return []
    wanted = (name for name in names if name.startswith(("card", "renderD")))
    nodes = (_node(tree, f"/dev/dri/{name}") for name in wanted)
    return [node for node in nodes if node is not None]


def gpu_edits(tree: DriverTree, gpu: Gpu) -> ContainerEdits:
    """Return what a container gets for all of *gpu*, or for a share of it."""
    nodes = (_required_node(tree, f"/dev/nvidia{gpu.minor}"), *_dri_nodes(tree, gpu))
    return ContainerEdits(device_nodes=nodes)


def mig_edits(tree: DriverTree, gpu: Gpu, mig: MigDevice) -> ContainerEdits:
    """Return what a container gets for *mig*, a partition of *gpu*."""
    parent = _required_node(tree, f"/dev/nvidia{gpu.minor}")
    return ContainerEdits(device_nodes=(parent, *capability_nodes(tree, gpu, mig)))
