"""Who the simulated driver says is on a GPU, through the real binding."""

from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests.sim.driving import Driver, a_driver, gpu

MIB = 2**20


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """Lend a driver and give the binding back afterwards."""
    with a_driver(tmp_path / "gpus.yaml") as driver:
        yield driver


def test_processes_and_their_memory(driver: Driver) -> None:
    """Those that compute and those that draw, and their memory is what is used of the GPU."""
    driver.starts(
        "gpus: [{profile: t4, utilization_percent: 7, processes: [{pid: 41, memory_mib: 100},"
        " {pid: 42, memory_mib: null}, {pid: 43, memory_mib: 5, graphics: true}]}]"
    )
    found = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu())
    assert [(each.pid, each.usedGpuMemory) for each in found] == [(41, 100 * MIB), (42, None)]
    (drawing,) = pynvml.nvmlDeviceGetGraphicsRunningProcesses(gpu())
    assert (drawing.pid, drawing.gpuInstanceId) == (43, 0xFFFFFFFF)
    memory = pynvml.nvmlDeviceGetMemoryInfo(gpu())
    assert (memory.used, memory.free + memory.used) == (105 * MIB, memory.total)
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu()).gpu == 7


def test_processes_of_a_partition(driver: Driver) -> None:
    """The GPU names all with their instance, the partition its own; neither says how busy it is."""
    driver.starts(
        "gpus: [{profile: a30, mig: [{profile: 1g.6gb, uuid: MIG-a}, {profile: 1g.6gb}],"
        " utilization_percent: null, processes: [{pid: 41, memory_mib: 9, partition: MIG-a},"
        " {pid: 42}]}]"
    )
    part = pynvml.nvmlDeviceGetHandleByUUID("MIG-a")
    (own,) = pynvml.nvmlDeviceGetComputeRunningProcesses(part)
    assert (own.pid, own.gpuInstanceId) == (41, pynvml.nvmlDeviceGetGpuInstanceId(part))
    assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(gpu())) == 2
    assert pynvml.nvmlDeviceGetMemoryInfo(part).used == 9 * MIB
    for handle in (part, gpu()):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetUtilizationRates(handle)
