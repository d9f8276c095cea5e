"""Builds fake driver installations: real files and links, device numbers from a table."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from cdi.edits import ContainerEdits, DeviceNode
from cdi.enforcement import DeviceLimit, Enforcement
from cdi.library import LibraryStore, make_placeholder
from cdi.nvidia import DriverTree, Surroundings, scan
from gpu.model import ComputeMode, Gpu, GpuUuid, MigDevice, PciBusId

VERSION = "580.82.07"
HOST_ROOT = "/run/nvidia/driver"
LIBRARY_DIR = "usr/lib64"
CLAIM = "0b9c5a52-7a0e-4d7e-9d0e-6a3c1f2b4d5e"
NUMBERS: dict[str, tuple[int, int]] = {
    "dev/nvidiactl": (195, 255),
    "dev/nvidia-modeset": (195, 254),
    "dev/nvidia-uvm": (511, 0),
    "dev/nvidia-uvm-tools": (511, 1),
    "dev/nvidia0": (195, 0),
    "dev/nvidia1": (195, 1),
}

PROC_DEVICES = """Character devices:
  1 mem
195 nvidia
234 nvidia-caps-imex-channels
237 nvidia-caps

Block devices:
259 blkext
238 nvidia-caps
"""


def write(root: Path, inner: str, text: str = "") -> Path:
    """Write *text* to *inner* below *root* and return its path."""
    path = root / inner
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def driver_root(root: Path, *, version: str = VERSION, library_dir: str = LIBRARY_DIR) -> Path:
    """Lay out a driver below *root*: libraries with their links, and programs."""
    for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-glcore"):
        write(root, f"{library_dir}/{name}.so.{version}", name)
    write(root, f"{library_dir}/vdpau/libvdpau_nvidia.so.{version}")
    write(root, f"{library_dir}/libc.so.6")
    for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
        (root / library_dir / f"{name}.so.1").symlink_to(f"{name}.so.{version}")
    (root / library_dir / "libnvidia-ml.so").symlink_to("libnvidia-ml.so.1")
    (root / library_dir / "libunrelated.so.1").symlink_to("libc.so.6")
    write(root, "usr/bin/nvidia-smi")
    write(root, "usr/bin/nvidia-persistenced")
    return root


def listen(root: Path, inner: str) -> None:
    """Leave a Unix socket at *inner* below *root*; binding one would limit the path's length."""
    path = root / inner
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFSOCK | 0o666)


def tree(root: Path, *, numbers: Mapping[str, tuple[int, int]] = NUMBERS) -> DriverTree:
    """Scan the driver below *root*, whose nodes have *numbers* by path."""
    return scan(
        root,
        host_root=HOST_ROOT,
        surroundings=Surroundings(
            local_dev_root=root,
            host_dev_root="/",
            proc_root=root / "proc",
            sys_root=root / "sys",
            device_numbers=lambda path: numbers.get(str(path.relative_to(root))),
        ),
    )


def gpu(minor: int = 0) -> Gpu:
    """Return a GPU with *minor*."""
    return Gpu(
        uuid=GpuUuid(f"GPU-00000000-0000-4000-8000-00000000000{minor}"),
        pci_bus_id=PciBusId(f"0000:0{minor + 1}:00.0"),
        minor=minor,
        name="NVIDIA A100-SXM4-40GB",
        brand="Nvidia",
        architecture="Ampere",
        memory_mib=40960,
        memory_reserved_mib=0,
        compute_capability="8.0",
        driver_version=VERSION,
        cuda_driver_version="13.0",
        numa_node=0,
        pcie_root="pci0000:00",
        mig_enabled=False,
        compute_mode=ComputeMode.DEFAULT,
    )


def mig(parent: Gpu) -> MigDevice:
    """Return the partition gi7/ci0 of *parent*."""
    return MigDevice(
        uuid=GpuUuid("MIG-00000000-0000-4000-8000-0000000000aa"),
        parent_uuid=parent.uuid,
        profile="1g.5gb",
        gpu_instance_id=7,
        compute_instance_id=0,
        memory_mib=4864,
        multiprocessors=14,
    )


def mig_proc(root: Path) -> None:
    """Say in *root*'s proc that gi7/ci0 of GPU 0 has the minors 66 and 67."""
    write(root, "proc/devices", PROC_DEVICES)
    told = "DeviceFileMinor: {}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
    capabilities = "proc/driver/nvidia/capabilities/gpu0/mig/gi7"
    write(root, f"{capabilities}/access", told.format(66))
    write(root, f"{capabilities}/ci0/access", told.format(67))


def enforcement(root: Path, *limits: DeviceLimit) -> Enforcement:
    """Return an enforcement of *limits* by a placeholder library, for any machine the same."""
    make_placeholder(root / "libvgpu.so")
    library = LibraryStore(root / "adopted", "/var/lib/gpuslice/hooks").adopt(root / "libvgpu.so")
    return Enforcement(
        library=library,
        region_host_path=f"/run/gpuslice/claims/{CLAIM}/region.cache",
        limits=limits,
    )


def node_edits(minor: int = 0) -> ContainerEdits:
    """Return edits that hold one device node."""
    node = DeviceNode(
        path=f"/dev/nvidia{minor}", type="c", major=195, minor=minor, permissions="rw"
    )
    return ContainerEdits(device_nodes=(node,))
