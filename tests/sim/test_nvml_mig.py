"""Partitions of the simulated library, and the boards' tables in NVML's structures."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from sim import boards
from tests.sim.driving import Driver, a_driver, gpu


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """Lend a driver and give the binding back afterwards."""
    with a_driver(tmp_path / "gpus.yaml") as driver:
        yield driver


def test_partitions_answer_for_themselves(driver: Driver) -> None:
    """A MIG handle knows its ids, resources, parent and profile; slots after the last are empty."""
    driver.starts("gpus: [{profile: h100-80gb, uuid: GPU-a, mig: [1g.20gb, 3g.40gb]}]")
    assert pynvml.nvmlDeviceGetMigMode(gpu()) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu()) == 7
    part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 1)
    assert pynvml.nvmlDeviceIsMigDeviceHandle(part).value == 1
    assert pynvml.nvmlDeviceGetName(part) == "NVIDIA H100 80GB HBM3 MIG 1g.20gb"
    assert pynvml.nvmlDeviceGetUUID(part).startswith("MIG-")
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)
    assert pynvml.nvmlDeviceGetUUID(parent) == "GPU-a"
    attributes = pynvml.nvmlDeviceGetAttributes_v2(part)
    assert (attributes.multiprocessorCount, attributes.memorySizeMB) == (26, 20096)
    assert (attributes.gpuInstanceSliceCount, attributes.sharedDecoderCount) == (1, 1)
    assert pynvml.nvmlDeviceGetMemoryInfo(part).total == 20096 * 1024 * 1024
    assert pynvml.nvmlDeviceGetComputeInstanceId(part) == 0
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 2)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetGpuInstanceId(gpu())


def test_boards_without_mig_say_so(driver: Driver) -> None:
    """Mode and profiles are not supported, and no partition is possible."""
    driver.starts("gpus: [{profile: t4}]")
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu()) == 0
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetMigMode(gpu())
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 0)


@pytest.mark.parametrize("board", ["a100-40gb", "h200-141gb", "a30"])
def test_the_mig_table_comes_through_the_structures(driver: Driver, board: str) -> None:
    """Profiles and their placements read through NVML are the board's table."""
    driver.starts(f"gpus: [{{profile: {board}}}]")
    table = boards.board(board).mig
    assert table is not None
    for profile in table.profiles:
        info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), profile.enum)
        older = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu(), profile.enum, version=1)
        assert (info.name, info.id, info.memorySizeMB) == (
            f"MIG {profile.name}",
            profile.id,
            profile.memory_mib,
        )
        assert (older.id, older.instanceCount) == (profile.id, profile.instances)
        found = ctypes.c_uint()
        call = pynvml.nvmlDeviceGetGpuInstancePossiblePlacements
        call(gpu(), info.id, None, ctypes.byref(found))
        places = (pynvml.c_nvmlGpuInstancePlacement_t * found.value)()
        call(gpu(), info.id, places, ctypes.byref(found))
        assert [place.start for place in places] == profile.starts
        assert {place.size for place in places} == {profile.memory_slices}
