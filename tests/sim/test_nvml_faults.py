"""Errors, missing functions and delays of the simulated library, and edits while it is in use."""

import time
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from sim import gpufile
from tests.sim.driving import Driver, a_driver, gpu


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """Lend a driver and give the binding back afterwards."""
    with a_driver(tmp_path / "gpus.yaml") as driver:
        yield driver


def test_a_missing_symbol_is_the_bindings_own_error(driver: Driver) -> None:
    """An old driver lacks a function; the binding says so."""
    driver.starts("{missing: [nvmlDeviceGetSerial], gpus: [{profile: t4}]}")
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetSerial(gpu())
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetFanSpeed(gpu())


@pytest.mark.parametrize("reason", gpufile.REASONS)
def test_every_error_is_the_bindings_class(driver: Driver, reason: str) -> None:
    """A reason in the file comes out as the error with that number."""
    driver.starts(f"gpus: [{{profile: t4, errors: {{nvmlDeviceGetName: {reason}}}}}]")
    with pytest.raises(pynvml.NVMLError) as caught:
        pynvml.nvmlDeviceGetName(gpu())
    assert caught.value.value == getattr(pynvml, f"NVML_ERROR_{reason}")


def test_an_error_may_name_one_version(driver: Driver) -> None:
    """A version in the key spares the other versions; no version hits all."""
    driver.starts("gpus: [{profile: t4, errors: {nvmlDeviceGetMemoryInfo_v2: UNKNOWN}}]")
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu()).total > 0
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetMemoryInfo(gpu(), version=pynvml.nvmlMemory_v2)


def test_an_edit_takes_effect_on_open_handles(driver: Driver) -> None:
    """Breaking, repartitioning and removing a GPU is seen by who holds its handle."""
    driver.starts("gpus: [{profile: a30, uuid: GPU-a, mig: [1g.6gb]}]")
    handle = gpu()
    part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    driver.has("gpus: [{profile: a30, uuid: GPU-a, errors: {nvmlDeviceGetName: TIMEOUT}}]")
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlDeviceGetName(handle)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetUUID(part)
    driver.has("gpus: []")
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetName(handle)
    driver.has("gpus: [{profile: a30, uuid: GPU-a}]")
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA A30"


def test_a_wrong_edit_changes_nothing(driver: Driver) -> None:
    """A mistake in the file leaves the last good state in force until it is put right."""
    driver.starts("gpus: [{profile: t4}]")
    driver.has("gpus: [{profile: nonsense}]")
    assert pynvml.nvmlDeviceGetCount() == 1
    driver.has("gpus: []")
    assert pynvml.nvmlDeviceGetCount() == 0


def test_a_wrong_file_is_refused_at_the_start(driver: Driver) -> None:
    """There is no last good state at the start."""
    with pytest.raises(gpufile.GpuFileError, match="unknown profile"):
        driver.starts("gpus: [{profile: nonsense}]")


def test_a_call_takes_as_long_as_the_file_says(driver: Driver) -> None:
    """A driver can be made slow."""
    driver.starts("{delays_s: {nvmlDeviceGetName: 0.05}, gpus: [{profile: t4}]}")
    started_s = time.monotonic()
    pynvml.nvmlDeviceGetName(gpu())
    assert time.monotonic() - started_s >= 0.05
