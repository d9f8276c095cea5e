"""A host's file system as an NVIDIA driver leaves it, below one directory.

The libraries and programs are placeholders that say so: what is looked for are names, links and
places. /proc and /sys carry what is read from there to describe devices: the majors in
`/proc/devices`, the minors of MIG capabilities (3 + 135 for each GPU + 9 for each GPU instance,
then one for each compute instance, as the driver numbers them), the PCIe link and its NUMA node.

Device nodes are real where this process may make them. Where it may not they are plain files,
`FakeHost.real_devices` is false, and `numbers_of` reads what they stand for.
"""

import os
import platform
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim import hardware
from sim.gpufile import GpuFile
from sim.hardware import MigInstance, SimGpu

MAJOR_NVIDIA: Final = 195
MAJOR_CAPS: Final = 237
MAJOR_UVM: Final = 510

_CTL_MINOR: Final = 255
_MODESET_MINOR: Final = 254
_FIRST_CAP: Final = 3
_GPU_INSTANCES: Final = 15
_COMPUTE_INSTANCES: Final = 8
_SONAMES: Final = {
    "libcuda": 1,
    "libcudadebugger": 1,
    "libnvidia-cfg": 1,
    "libnvidia-gpucomp": None,
    "libnvidia-ml": 1,
    "libnvidia-nvvm": 4,
    "libnvidia-opencl": 1,
    "libnvidia-ptxjitcompiler": 1,
}
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
_LABEL: Final = "placeholder of a simulated NVIDIA driver, no NVIDIA software\n"
_STANDS_FOR: Final = "stands for character device "
_DEVICES: Final = f"""Character devices:
  1 mem
  5 /dev/tty
{MAJOR_NVIDIA} nvidia
{MAJOR_NVIDIA} nvidia-modeset
{MAJOR_NVIDIA} nvidiactl
{MAJOR_CAPS} nvidia-caps
{MAJOR_UVM} nvidia-uvm

Block devices:
  8 sd
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeHost:
    """The tree that `build` wrote; *driver_root* and *dev_root* as that host calls them."""

    root: Path
    driver_root: str
    dev_root: str
    real_devices: bool
    numbers: dict[Path, tuple[int, int]]
    """Major and minor of each device node, by its path as this process sees it."""

    @property
    def proc(self) -> Path:
        """Return what stands for the host's /proc."""
        return self.root / "proc"

    @property
    def sysfs(self) -> Path:
        """Return what stands for the host's /sys."""
        return self.root / "sys"


def build(
    file: GpuFile, root: Path, *, driver_root: str = "/run/nvidia/driver", dev_root: str = "/"
) -> FakeHost:
    """Write the tree for *file* below *root*, or bring an earlier one up to date."""
    gpus = hardware.gpus(file)
    _write_driver(root / driver_root.lstrip("/"), file.driver.version)
    for stale in ("proc", "sys"):
        shutil.rmtree(root / stale, ignore_errors=True)
    _write_proc(root / "proc", gpus)
    for gpu in gpus:
        _write_sysfs(root / "sys", gpu)
    dev = root / dev_root.lstrip("/") / "dev"
    for old in (*dev.glob("nvidia[!-]*"), *dev.glob("nvidia-caps/*")):
        old.unlink()
    numbers = {dev / name: number for name, number in _nodes(gpus)}
    real = [_make_node(path, number) for path, number in numbers.items()]
    # NVIDIA's runtime takes mounts of it for names of GPUs.
    _make_node(dev / "null", (1, 3))
    return FakeHost(
        root=root,
        driver_root=driver_root,
        dev_root=dev_root,
        real_devices=all(real),
        numbers=numbers,
    )


def numbers_of(path: Path) -> tuple[int, int] | None:
    """Return major and minor of the node at *path*, or of what the file there stands for."""
    try:
        found = path.stat()
        if stat.S_ISCHR(found.st_mode):
            return os.major(found.st_rdev), os.minor(found.st_rdev)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if not text.startswith(_STANDS_FOR):
        return None
    major, _, minor = text.removeprefix(_STANDS_FOR).strip().partition(":")
    return int(major), int(minor)


def cap_minor(*, gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> int:
    """Return the minor number of a MIG capability, as the driver numbers them."""
    each_instance = 1 + _COMPUTE_INSTANCES
    instances = gpu_minor * _GPU_INSTANCES + gpu_instance
    within = 0 if compute_instance is None else 1 + compute_instance
    return _FIRST_CAP + instances * each_instance + within


def _write_driver(driver: Path, version: str) -> None:
    libraries = driver / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    for name, soname in _SONAMES.items():
        for old in libraries.glob(f"{name}.so*"):
            old.unlink()
        _write(libraries / f"{name}.so.{version}", _LABEL)
        if soname is not None:
            (libraries / f"{name}.so.{soname}").symlink_to(f"{name}.so.{version}")
    (libraries / "libcuda.so").symlink_to("libcuda.so.1")
    for name in _PROGRAMS:
        program = driver / "usr" / "bin" / name
        _write(program, f"#!/bin/sh\n# {_LABEL}exit 1\n")
        program.chmod(0o755)


def _write_proc(proc: Path, gpus: tuple[SimGpu, ...]) -> None:
    _write(proc / "devices", _DEVICES)
    minors = ["config 1", "monitor 2"]
    for gpu in gpus:
        if gpu.board.mig is not None:
            minors += _mig_minors(gpu.minor)
        capabilities = proc / "driver" / "nvidia" / "capabilities" / f"gpu{gpu.minor}" / "mig"
        for instance in gpu.mig:
            for path, minor in _caps(gpu, instance):
                _write(
                    capabilities / path / "access",
                    f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
                )
    _write(proc / "driver" / "nvidia-caps" / "mig-minors", "\n".join(minors) + "\n")


def _mig_minors(gpu_minor: int) -> Iterator[str]:
    for gi in range(_GPU_INSTANCES):
        minor = cap_minor(gpu_minor=gpu_minor, gpu_instance=gi)
        yield f"gpu{gpu_minor}/gi{gi}/access {minor}"
        for ci in range(_COMPUTE_INSTANCES):
            minor = cap_minor(gpu_minor=gpu_minor, gpu_instance=gi, compute_instance=ci)
            yield f"gpu{gpu_minor}/gi{gi}/ci{ci}/access {minor}"


def _caps(gpu: SimGpu, instance: MigInstance) -> Iterator[tuple[str, int]]:
    gi, ci = instance.gpu_instance_id, instance.compute_instance_id
    yield f"gi{gi}", cap_minor(gpu_minor=gpu.minor, gpu_instance=gi)
    minor = cap_minor(gpu_minor=gpu.minor, gpu_instance=gi, compute_instance=ci)
    yield f"gi{gi}/ci{ci}", minor


def _write_sysfs(sysfs: Path, gpu: SimGpu) -> None:
    target = Path("devices") / gpu.entry.pcie_root / gpu.pci_bus_id
    _write(sysfs / target / "numa_node", f"{gpu.entry.numa_node}\n")
    _write(sysfs / target / "vendor", "0x10de\n")
    link = sysfs / "bus" / "pci" / "devices" / gpu.pci_bus_id
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path("../../..") / target)


def _nodes(gpus: tuple[SimGpu, ...]) -> Iterator[tuple[str, tuple[int, int]]]:
    yield "nvidiactl", (MAJOR_NVIDIA, _CTL_MINOR)
    yield "nvidia-modeset", (MAJOR_NVIDIA, _MODESET_MINOR)
    yield "nvidia-uvm", (MAJOR_UVM, 0)
    yield "nvidia-uvm-tools", (MAJOR_UVM, 1)
    yield "nvidia-caps/nvidia-cap1", (MAJOR_CAPS, 1)
    yield "nvidia-caps/nvidia-cap2", (MAJOR_CAPS, 2)
    for gpu in gpus:
        yield f"nvidia{gpu.minor}", (MAJOR_NVIDIA, gpu.minor)
        for instance in gpu.mig:
            for _path, minor in _caps(gpu, instance):
                yield f"nvidia-caps/nvidia-cap{minor}", (MAJOR_CAPS, minor)


def _make_node(path: Path, numbers: tuple[int, int]) -> bool:
    """Make a node, or a plain file that stands for it; say whether it is a node."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
    except OSError:
        _write_stand_in(path, numbers)
        return False
    return True


def _write_stand_in(path: Path, numbers: tuple[int, int]) -> None:
    major, minor = numbers
    _write(path, f"{_STANDS_FOR}{major}:{minor}\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
