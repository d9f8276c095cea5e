"""The simulated library, called through the real binding."""

from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests.sim.driving import Driver, a_driver, gpu


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """Lend a driver and give the binding back afterwards."""
    with a_driver(tmp_path / "gpus.yaml") as driver:
        yield driver


def test_a_gpu_is_found_by_index_and_uuid(driver: Driver) -> None:
    """Both ways lead to the same handle, and the handle to its identity."""
    driver.starts("gpus: [{profile: t4}, {profile: l4, uuid: GPU-a}]")
    assert pynvml.nvmlDeviceGetCount() == 2
    handle = pynvml.nvmlDeviceGetHandleByUUID("GPU-a")
    assert pynvml.nvmlDeviceGetUUID(gpu(1)) == pynvml.nvmlDeviceGetUUID(handle) == "GPU-a"
    assert pynvml.nvmlDeviceGetIndex(handle) == 1
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA L4"
    assert len(pynvml.nvmlDeviceGetSerial(handle)) > 0
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        gpu(2)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-b")


def test_the_bus_id_has_nvmls_form(driver: Driver) -> None:
    """Eight digits of domain in upper case, four in the old field."""
    driver.starts("gpus: [{profile: t4, pci: '0001:ab:1c.0'}]")
    info = pynvml.nvmlDeviceGetPciInfo(gpu())
    assert (info.busId, info.busIdLegacy) == ("00000001:AB:1C.0", "0001:AB:1C.0")
    assert (info.domain, info.bus, info.device) == (1, 0xAB, 0x1C)


def test_memory_adds_up(driver: Driver) -> None:
    """Free, used and reserved make the total, in both versions of the call."""
    driver.starts("gpus: [{profile: t4}]")
    old = pynvml.nvmlDeviceGetMemoryInfo(gpu())
    new = pynvml.nvmlDeviceGetMemoryInfo(gpu(), version=pynvml.nvmlMemory_v2)
    assert old.total == new.total == 15360 * 1024 * 1024
    assert old.free + old.used == old.total
    assert new.free + new.used + new.reserved == new.total
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        pynvml.nvmlDeviceGetMemoryInfo(gpu(), version=1)


def test_unified_memory_is_not_supported(driver: Driver) -> None:
    """A GPU without memory of its own answers as such GPUs do."""
    driver.starts("gpus: [{profile: gb10}]")
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMemoryInfo(gpu())


def test_versions_and_processes(driver: Driver) -> None:
    """The system's versions are the file's, and nothing runs."""
    driver.starts("{driver: {version: '570.1', cuda: '12.8'}, gpus: [{profile: t4}]}")
    assert pynvml.nvmlSystemGetDriverVersion() == "570.1"
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.570.1"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 12080
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(gpu()) == []
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(gpu()) == []


def test_calls_need_a_session(driver: Driver) -> None:
    """Before the first init and after the last shutdown nothing answers."""
    driver.starts("gpus: []")
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 0
    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_topology_follows_root_and_numa_node(driver: Driver) -> None:
    """GPUs meet at their own board, their root, their node or nowhere closer than the system."""
    driver.starts("""
gpus:
- {profile: t4, pcie_root: "pci0000:00", numa_node: 0}
- {profile: t4, pcie_root: "pci0000:00", numa_node: 0}
- {profile: t4, pcie_root: "pci0000:40", numa_node: 0}
- {profile: t4, pcie_root: "pci0000:80", numa_node: 1}
""")
    levels = [pynvml.nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(other)) for other in range(4)]
    assert levels == [
        pynvml.NVML_TOPOLOGY_INTERNAL,
        pynvml.NVML_TOPOLOGY_HOSTBRIDGE,
        pynvml.NVML_TOPOLOGY_NODE,
        pynvml.NVML_TOPOLOGY_SYSTEM,
    ]
