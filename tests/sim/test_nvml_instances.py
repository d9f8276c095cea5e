"""GPU instances that are made in the simulated library, as NVML's callers find them."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from sim.instancestore import InstanceStore
from tests.sim.driving import Driver, a_driver, gpu

GPUS = "gpus: [{profile: a100-40gb, uuid: GPU-a, mig: [3g.20gb]}]"
ONE_SLICE = 19


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """Lend a driver and give the binding back afterwards."""
    with a_driver(tmp_path / "gpus.yaml") as driver:
        driver.starts(GPUS)
        yield driver


def made(start: int, size: int = 1, profile: int = ONE_SLICE) -> Any:
    """Make a GPU instance."""
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu(), profile, ctypes.byref(place))


def listed() -> list[int]:
    """Return the numbers of all one-slice instances."""
    found, count = (pynvml.c_nvmlGpuInstance_t * 8)(), ctypes.c_uint(8)
    pynvml.nvmlDeviceGetGpuInstances(gpu(), ONE_SLICE, found, ctypes.byref(count))
    return [pynvml.nvmlGpuInstanceGetInfo(each).id for each in found[: count.value]]


@pytest.mark.usefixtures("driver")
def test_an_instance_and_its_device() -> None:
    """A device is there once the GPU instance has a compute instance."""
    instance = made(6)
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    assert (info.profileId, info.placement.start, info.placement.size) == (ONE_SLICE, 6, 1)
    assert pynvml.nvmlDeviceGetUUID(info.device) == "GPU-a"
    assert listed() == [info.id]
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 1)
    profile = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 0, version=1)
    compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, profile.id)
    assert pynvml.nvmlComputeInstanceGetInfo_v2(compute).id == 0
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 1)
    assert pynvml.nvmlDeviceGetGpuInstanceId(device) == info.id
    with pytest.raises(pynvml.NVMLError_InUse):
        pynvml.nvmlGpuInstanceDestroy(instance)
    pynvml.nvmlComputeInstanceDestroy(compute)
    pynvml.nvmlGpuInstanceDestroy(instance)
    assert listed() == []
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlGpuInstanceGetInfo(instance)


@pytest.mark.usefixtures("driver")
def test_places() -> None:
    """The instance of the file takes the place that the file's layout gives it."""
    with pytest.raises(pynvml.NVMLError_InsufficientResources):
        made(0)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        made(7)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        made(4, size=2)


@pytest.mark.usefixtures("driver")
def test_the_file_s_own_are_in_use() -> None:
    """As if a program ran on them."""
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0)
    number = pynvml.nvmlDeviceGetGpuInstanceId(device)
    instance = pynvml.nvmlDeviceGetGpuInstanceById(gpu(), number)
    compute = pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)
    with pytest.raises(pynvml.NVMLError_InUse):
        pynvml.nvmlComputeInstanceDestroy(compute)


def test_a_reboot_loses_them(driver: Driver, tmp_path: Path) -> None:
    """They are in a file of their own, which other processes read too."""
    made(6)
    driver.starts(GPUS)
    assert len(listed()) == 1
    InstanceStore(tmp_path / "gpus.yaml").path.unlink()
    assert listed() == []


def test_mig_has_to_be_on(driver: Driver) -> None:
    """Nothing can be made otherwise."""
    driver.has("gpus: [{profile: a100-40gb, uuid: GPU-a}]")
    with pytest.raises(pynvml.NVMLError_NotSupported):
        made(6)
