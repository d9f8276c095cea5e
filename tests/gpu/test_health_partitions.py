"""Which partition, or which whole GPU, an XID ails."""

from dataclasses import replace

import pytest

from gpu.health import History
from gpu.model import GpuUuid
from tests.dra.gpus import GPU
from tests.gpu.histories import FIRST, PARTITIONED, SECOND, after, codes, reading, xid


@pytest.mark.parametrize(
    ("instance", "hit"),
    [
        ({"gpu_instance": 7, "compute_instance": 1}, [SECOND]),
        ({"gpu_instance": 7}, [FIRST, SECOND]),
        ({"gpu_instance": 7, "compute_instance": 2}, []),
        ({"gpu_instance": 8, "compute_instance": 0}, []),
        ({}, [GPU.uuid]),
    ],
)
def test_an_xid_of_a_partition_is_that_partitions(
    instance: dict[str, int], hit: list[GpuUuid]
) -> None:
    """The others go on; one that is no more cannot be ill; without a partition it is the GPU."""
    seen = reading(PARTITIONED)
    history = after(History(), seen, xid(48, GPU.uuid, **instance))
    assert codes(history, seen) == [(uuid, "Xid48") for uuid in hit]


def test_a_partition_of_a_gpu_that_has_none_is_the_gpu() -> None:
    """Ids mean nothing where MIG is off, and are not known where the GPU cannot be read."""
    seen = reading(GPU)
    history = after(History(), seen, xid(48, GPU.uuid, gpu_instance=1, compute_instance=0))
    assert codes(history, seen) == [(GPU.uuid, "Xid48")]
    history = after(History(), reading(), xid(48, GPU.uuid, gpu_instance=1, compute_instance=0))
    assert codes(history, seen) == [(GPU.uuid, "Xid48")]


def test_a_partition_that_is_removed_takes_its_xids_with_it() -> None:
    """A new one in its place is another device."""
    seen = reading(PARTITIONED)
    history = after(History(), seen, xid(48, GPU.uuid, gpu_instance=7, compute_instance=0))
    less = reading(replace(PARTITIONED, mig_devices=PARTITIONED.mig_devices[1:]))
    assert after(history, less).sightings == ()
