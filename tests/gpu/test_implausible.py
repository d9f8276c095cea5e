"""Answers of NVML that succeed and cannot be true, below the real binding."""

from typing import Any

import pytest

from gpu.errors import NvmlError
from gpu.model import Inventory
from tests.fuzz.mutation import replaced
from tests.fuzz.nvml_answers import PLANS, read_inventory

TWO_GPUS, PARTITIONED = PLANS[1], PLANS[2]
_MEMORY = ("gpus", 0, "nvmlDeviceGetMemoryInfo_v2", 0, "total")
_ATTRIBUTES = ("gpus", 0, "mig", 1, "nvmlDeviceGetAttributes_v2", 0)


def inventory(plan: Any, *path: str | int, value: Any) -> Inventory:
    """Return what is read where *value* is answered at *path*."""
    return read_inventory(replaced(plan, path, value))


def test_more_gpus_than_a_machine_can_have_are_an_error() -> None:
    """Four thousand million of them would keep the scan busy for hours."""
    with pytest.raises(NvmlError, match="nvmlDeviceGetCount failed: IMPLAUSIBLE_NUMBER"):
        inventory(TWO_GPUS, "system", "nvmlDeviceGetCount_v2", 0, value=2**32 - 1)


def test_more_partitions_than_a_gpu_can_have_are_its_fault() -> None:
    """The other GPU is read all the same."""
    found = inventory(PARTITIONED, "gpus", 0, "nvmlDeviceGetMaxMigDeviceCount", 0, value=2**32 - 1)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1"]
    assert [(fault.uuid, fault.reason) for fault in found.faults] == [
        ("GPU-0", "IMPLAUSIBLE_NUMBER")
    ]


@pytest.mark.parametrize("total", [1, 2**20 - 1])
def test_memory_of_less_than_a_mib_is_a_fault(total: int) -> None:
    """Rounded down it would be offered as nothing."""
    found = inventory(TWO_GPUS, *_MEMORY, value=total)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1"]
    assert [fault.call for fault in found.faults] == ["nvmlDeviceGetMemoryInfo"]


@pytest.mark.parametrize("name", ["memorySizeMB", "multiprocessorCount"])
def test_a_partition_of_nothing_is_a_fault(name: str) -> None:
    """It is not offered as a device with no memory, and its profile is not made from it."""
    found = inventory(PARTITIONED, *_ATTRIBUTES, name, value=0)
    assert [gpu.uuid for gpu in found.gpus] == ["GPU-1"]
    assert [fault.reason for fault in found.faults] == ["IMPLAUSIBLE_NUMBER"]
