"""What a container must have got, from the outside facts alone: NVIDIA's device numbers, HAMi-core.

Numbers of devices are those of the simulated driver of the first node (`driver.GPUS`): its GPUs
have minors in the order of their PCI bus ids, so the order of *limits* here is that of minors.
"""

from collections.abc import Collection, Mapping
from typing import Final

from sim.driverroot import MAJOR_CAPS, MAJOR_NVIDIA, MAJOR_UVM
from tests.cluster.scenes.report import ContainerReport

T4: Final = "Tesla T4"
A10: Final = "NVIDIA A10"
L4: Final = "NVIDIA L4"
H100: Final = "NVIDIA H100 80GB HBM3"
A100: Final = "NVIDIA A100-SXM4-80GB"
MINORS: Final = {product: minor for minor, product in enumerate((T4, A10, L4, H100, A100))}

PRIVATE_REGION: Final = "/run/gpuslice/region.cache"
LIBRARY: Final = "/usr/local/vgpu/libvgpu.so"
PRELOAD: Final = "/etc/ld.so.preload"
# HAMi-core makes its region one byte longer than its structure.
REGION_BYTES: Final = 2008953
_CONTROL: Final = {
    "/dev/nvidiactl": (MAJOR_NVIDIA, 255),
    "/dev/nvidia-modeset": (MAJOR_NVIDIA, 254),
    "/dev/nvidia-uvm": (MAJOR_UVM, 0),
    "/dev/nvidia-uvm-tools": (MAJOR_UVM, 1),
}
_LIMIT_NAMES: Final = ("CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_MEMORY_SH")


def expect_limits(report: ContainerReport, limits: Mapping[str, tuple[str, str]]) -> None:
    """Check a container with a share of each product of *limits*: memory and percent."""
    _expect_gpus(report, frozenset(limits))
    in_order = sorted(limits, key=MINORS.__getitem__)
    assert report.limits() == tuple(limits[each] for each in in_order)
    assert report.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert report.env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] == PRIVATE_REGION
    assert report.preload == LIBRARY
    assert report.region_bytes == REGION_BYTES
    assert report.mounts[LIBRARY].options >= {"ro", "nosuid", "nodev"}
    assert report.mounts[PRIVATE_REGION].options >= {"rw", "nosuid", "nodev"}
    assert report.writable == {PRIVATE_REGION}


def expect_whole(report: ContainerReport, *products: str) -> None:
    """Check a container with all of each of *products* and no limits."""
    _expect_gpus(report, frozenset(products))
    expect_nothing_limited(report)


def nodes_of(products: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return the device nodes of a container with a GPU of each of *products*."""
    return {**_CONTROL, **_gpu_nodes(frozenset(products))}


def expect_partition(report: ContainerReport, minors: frozenset[int]) -> None:
    """Check a container with one MIG device, whose capabilities have these *minors*."""
    nodes = {f"/dev/nvidia-caps/nvidia-cap{each}": (MAJOR_CAPS, each) for each in minors}
    assert report.devices == {**_CONTROL, **_gpu_nodes({A100}), **nodes}
    expect_nothing_limited(report)


def expect_nothing_limited(report: ContainerReport) -> None:
    """Check that nothing of HAMi-core is in the container."""
    assert not [key for key in report.env if key.startswith(_LIMIT_NAMES)]
    assert not report.preload
    assert report.region_bytes is None
    assert LIBRARY not in report.mounts
    assert not report.writable


def _expect_gpus(report: ContainerReport, products: frozenset[str]) -> None:
    assert report.devices == {**_CONTROL, **_gpu_nodes(products)}
    assert report.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "CUDA_VISIBLE_DEVICES" not in report.env
    libraries = [path for path in report.mounts if path.endswith("/libcuda.so.1")]
    assert libraries, "the driver's library is not mounted"


def _gpu_nodes(products: frozenset[str] | set[str]) -> dict[str, tuple[int, int]]:
    return {f"/dev/nvidia{MINORS[each]}": (MAJOR_NVIDIA, MINORS[each]) for each in products}
