"""Which annotations belong to HAMi's own parts."""

import pytest

from hami.keys import SCHEDULER_OWNED, is_scheduler_owned


@pytest.mark.parametrize(
    "key",
    [
        "hami.io/vgpu-node",
        "hami.io/vgpu-time",
        "hami.io/bind-phase",
        "hami.io/bind-time",
        "hami.io/vgpu-mig-allocations",
        "hami.io/vgpu-devices-to-allocate",
        "hami.io/vgpu-devices-allocated",
        "hami.io/cambricon-mlu-devices-allocated",
        "hami.io/kunlun-allocated",
        "hami.io/Vastai-devices-to-allocate",
        "hami.io/Ascend910B4-1-devices-allocated",
        "hami.io/BI-V150-devices-to-allocate",
        "CAMBRICON_DSMLU_ASSIGNED",
        "NEURON_ALLOCATED",
        "predicate-time",
        "huawei.com/Ascend910B2",
        "assigned-containers",
    ],
)
def test_scheduler_owned(key: str) -> None:
    """What the scheduler or a device plugin writes for any vendor is known."""
    assert key in SCHEDULER_OWNED
    assert is_scheduler_owned(key)


def test_chips_without_a_name() -> None:
    """A list of devices of a chip that the administrator added is known by its form."""
    assert is_scheduler_owned("hami.io/Ascend950-devices-to-allocate")
    assert is_scheduler_owned("hami.io/BI-V300-devices-allocated")


@pytest.mark.parametrize(
    "key",
    [
        "hami.io/gpu-scheduler-policy",
        "hami.io/node-scheduler-policy",
        "hami.io/device-scoring-weights",
        "hami.io/numa-alignment",
        "hami.io/use-Ascend910B2-uuid",
        "huawei.com/vnpu-mode",
        "mthreads.com/request-gpu-num",
        "nvidia.com/use-gpuuuid",
        "x.hami.io/vgpu-devices-allocated",
    ],
)
def test_keys_of_users(key: str) -> None:
    """What users write is not taken for the scheduler's."""
    assert not is_scheduler_owned(key)
