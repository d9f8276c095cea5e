"""What an allocation holds of a device, and which limits follow."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.allocation import AllocatedDevice
from dra.grants import NodeDevice, devices_by_name, grant, limits
from dra.record import GpuLimit, PreparedDevice
from gpu import names
from gpu.model import Gpu, PciBusId
from gpu.refusal import RefusedError
from tests.dra.builders import MIB, a_gpu, a_mig_gpu, a_share, a_whole, an_inventory, consumed


def granted(*allocated: AllocatedDevice, gpus: tuple[Gpu, ...]) -> tuple[PreparedDevice, ...]:
    """Return what *allocated* hold on a node with *gpus*."""
    on_node = devices_by_name(an_inventory(*gpus))
    return tuple(grant(each, on_node) for each in allocated)


def limits_of(*allocated: AllocatedDevice, gpus: tuple[Gpu, ...]) -> tuple[GpuLimit, ...]:
    """Return the limits of a claim that was given *allocated*."""
    on_node = devices_by_name(an_inventory(*gpus))
    return limits(granted(*allocated, gpus=gpus), on_node)


def refusal_of(*allocated: AllocatedDevice, gpus: tuple[Gpu, ...]) -> str:
    """Return why limits for *allocated* are refused."""
    with pytest.raises(RefusedError) as caught:
        limits_of(*allocated, gpus=gpus)
    return str(caught.value)


def test_a_gpu_in_mig_mode_is_only_its_partitions() -> None:
    """The GPU itself is no device then."""
    gpu, plain = a_mig_gpu(0, partitions=2), a_gpu(1)
    on_node = devices_by_name(an_inventory(gpu, plain))
    expected = {names.device_name(mig.uuid): NodeDevice(gpu, mig) for mig in gpu.mig_devices}
    assert on_node == expected | {names.device_name(plain.uuid): NodeDevice(plain)}


def test_a_share_holds_what_was_consumed() -> None:
    """Memory in MiB, cores in percent, and the ID by which the share is known."""
    gpu = a_gpu()
    (held,) = granted(a_share(gpu, "3000Mi", "30"), gpus=(gpu,))
    assert (held.memory_mib, held.cores_percent, held.shares) == (3000, 30, 1)
    assert not held.dedicated
    assert held.share_id == a_share(gpu).share_id
    assert held.uuid == held.parent_uuid == gpu.uuid


def test_a_whole_device_holds_all() -> None:
    """Without consumed capacity nobody else may hold the device."""
    gpu = a_gpu()
    (held,) = granted(a_whole(gpu), gpus=(gpu,))
    assert (held.memory_mib, held.cores_percent, held.shares) == (16000, 100, 1)
    assert held.dedicated


def test_a_partition_is_a_device_of_its_gpu() -> None:
    """The parent is remembered, so that the GPU is not given away beside it."""
    gpu = a_mig_gpu()
    (held,) = granted(a_whole(gpu.mig_devices[0]), gpus=(gpu,))
    assert (held.uuid, held.parent_uuid) == (gpu.mig_devices[0].uuid, gpu.uuid)
    assert held.memory_mib == 4000


def test_the_main_request_is_kept() -> None:
    """Kubelet matches containers on the part before the slash."""
    gpu = a_gpu()
    (held,) = granted(a_share(gpu, request="gpu/large"), gpus=(gpu,))
    assert held.request == "gpu"


@pytest.mark.parametrize("device_class", [names.CLASS_WHOLE, names.CLASS_SHARE, "team-a-gpus"])
def test_limits_follow_what_was_consumed_not_the_class(device_class: str) -> None:
    """A share got through any class is limited to what it consumed."""
    gpu = a_gpu()
    share = a_share(gpu, "3000Mi", "30", device_class=device_class)
    assert limits_of(share, gpus=(gpu,)) == (
        GpuLimit(uuid=gpu.uuid, memory_mib=3000, cores_percent=30),
    )


@pytest.mark.parametrize("cores", ["0", "100"])
def test_whole_memory_without_core_limit_is_not_limited(cores: str) -> None:
    """Nothing is left of the GPU, so nothing is to be limited."""
    gpu = a_gpu()
    assert limits_of(a_share(gpu, "16000Mi", cores), gpus=(gpu,)) == ()


def test_whole_memory_with_half_the_cores_is_limited() -> None:
    """Cores alone are a limit too."""
    gpu = a_gpu()
    assert limits_of(a_share(gpu, "16000Mi", "50"), gpus=(gpu,)) == (
        GpuLimit(uuid=gpu.uuid, memory_mib=16000, cores_percent=50),
    )


def test_no_core_limit_is_written_as_the_whole() -> None:
    """HAMi-core takes another GPU's limit for a 0."""
    gpu = a_gpu()
    (limit,) = limits_of(a_share(gpu, "1000Mi", "0"), gpus=(gpu,))
    assert limit.cores_percent == 100


def test_whole_gpus_and_partitions_are_not_limited() -> None:
    """The hardware limits them."""
    gpu, mig = a_gpu(0), a_mig_gpu(1)
    assert limits_of(a_whole(gpu), gpus=(gpu,)) == ()
    assert limits_of(a_whole(mig.mig_devices[0]), gpus=(mig,)) == ()


def test_shares_of_one_gpu_are_summed() -> None:
    """The container sees one GPU, so there is one index."""
    gpu = a_gpu()
    shares = (a_share(gpu, "3000Mi", "30"), a_share(gpu, "2000Mi", "25", share_id="other"))
    assert limits_of(*shares, gpus=(gpu,)) == (
        GpuLimit(uuid=gpu.uuid, memory_mib=5000, cores_percent=55),
    )


def test_one_share_without_core_limit_lifts_that_of_its_gpu() -> None:
    """Summed cores never exceed the whole."""
    gpu = a_gpu()
    shares = (a_share(gpu, "3000Mi", "30"), a_share(gpu, "2000Mi", "0", share_id="other"))
    assert [each.cores_percent for each in limits_of(*shares, gpus=(gpu,))] == [100]


def test_shares_that_make_up_a_gpu_are_not_limited() -> None:
    """All that the claim got of the GPU is the whole of it."""
    gpu = a_gpu()
    shares = (a_share(gpu, "8000Mi", "50"), a_share(gpu, "8000Mi", "50", share_id="other"))
    assert limits_of(*shares, gpus=(gpu,)) == ()


def test_a_whole_gpu_beside_a_share_gets_its_index() -> None:
    """Each visible GPU has a limit, or the numbers of the others would move."""
    first, second = a_gpu(0), a_gpu(1)
    allocated = (a_share(second, "3000Mi", "30", request="share"), a_whole(first, request="whole"))
    assert limits_of(*allocated, gpus=(first, second)) == (
        GpuLimit(uuid=first.uuid, memory_mib=16000, cores_percent=100),
        GpuLimit(uuid=second.uuid, memory_mib=3000, cores_percent=30),
    )


def test_administrative_access_counts_as_the_whole() -> None:
    """Monitoring beside a share is not held to what another share consumed."""
    first, second = a_gpu(0), a_gpu(1)
    watched = a_whole(first, request="watch", admin=True)
    found = limits_of(watched, a_share(second), gpus=(first, second))
    assert [each.memory_mib for each in found] == [16000, 1000]
    assert limits_of(watched, gpus=(first, second)) == ()


@given(st.permutations(range(6)), st.data())
def test_limit_and_card_agree_in_any_order(order: list[int], data: st.DataObject) -> None:
    """Index *i* has the limit of card *i* in PCI order, whatever order results and NVML have."""
    buses = data.draw(st.permutations(range(6)))
    gpus = [
        replace(a_gpu(number), pci_bus_id=PciBusId(f"0000:{buses[number] + 1:02x}:00.0"))
        for number in range(6)
    ]
    allocated = [a_share(gpus[number], f"{1000 + number}Mi") for number in order]
    found = limits_of(*allocated, gpus=tuple(gpus))
    in_bus_order = sorted(gpus, key=lambda gpu: buses[gpu.minor])
    assert [each.uuid for each in found] == [gpu.uuid for gpu in in_bus_order]
    assert [each.memory_mib for each in found] == [1000 + gpu.minor for gpu in in_bus_order]


def test_a_partition_beside_a_share_is_refused() -> None:
    """HAMi-core would number the partition and know no limit for it."""
    gpu, mig = a_gpu(0), a_mig_gpu(1)
    said = refusal_of(a_share(gpu), a_whole(mig.mig_devices[0], request="mig"), gpus=(gpu, mig))
    assert said.startswith("MigBesideShare: devices.requests: `mig`")


def test_a_partition_beside_a_whole_gpu_is_fine() -> None:
    """Nothing is limited, so there are no indexes to mix up."""
    gpu, mig = a_gpu(0), a_mig_gpu(1)
    assert limits_of(a_whole(gpu), a_whole(mig.mig_devices[0]), gpus=(gpu, mig)) == ()


def test_a_gpu_without_own_memory_beside_a_share_is_refused() -> None:
    """There is no limit that could be written for it."""
    gpu, unified = a_gpu(0), a_gpu(1, memory_mib=None)
    said = refusal_of(a_share(gpu), a_whole(unified, request="uma"), gpus=(gpu, unified))
    assert said.startswith("UnifiedBesideShare: devices.requests: `uma`")
    assert limits_of(a_whole(unified), gpus=(unified,)) == ()


@pytest.mark.parametrize(
    "allocated",
    [
        a_share(a_gpu(), consumed=None),
        a_share(a_gpu(), consumed=None, share_id=None),
        a_share(a_gpu(), consumed=None, device_class=names.CLASS_WHOLE),
    ],
)
def test_a_share_of_unknown_size_is_refused(allocated: AllocatedDevice) -> None:
    """A server that drops `consumedCapacity` must not hand whole GPUs to shares."""
    said = refusal_of(allocated, gpus=(a_gpu(),))
    assert said.startswith("ConsumedCapacityMissing: status.allocation.devices.results[gpu]")
    assert "DRAConsumableCapacity" in said


@pytest.mark.parametrize("capacity", ["memory", "cores", "shares"])
def test_each_capacity_has_to_be_there(capacity: str) -> None:
    """A missing one is refused and named, never taken for a default."""
    rest = {name: value for name, value in consumed("1Gi").items() if name != capacity}
    said = refusal_of(a_share(a_gpu(), consumed=rest), gpus=(a_gpu(),))
    assert said.startswith("ConsumedCapacityMissing")
    assert f"lacks `{capacity}`" in said


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"memory": "1000000"}, "MemoryNotWholeMiB"),
        ({"memory": "0"}, "MemoryNotWholeMiB"),
        ({"memory": "1G"}, "MemoryNotWholeMiB"),
        ({"memory": "-1Mi"}, "ConsumedCapacityUnreadable"),
        ({"memory": "lots"}, "ConsumedCapacityUnreadable"),
        ({"memory": ""}, "ConsumedCapacityUnreadable"),
        ({"memory": "1500m"}, "ConsumedCapacityUnreadable"),
        ({"memory": "9e99"}, "ConsumedCapacityUnreadable"),
        ({"cores": "101"}, "CoresOutOfRange"),
        ({"shares": "0"}, "SharesOutOfRange"),
        ({"cores": "500m"}, "ConsumedCapacityUnreadable"),
        ({"cores": "-1"}, "ConsumedCapacityUnreadable"),
        ({"shares": "NaN"}, "ConsumedCapacityUnreadable"),
    ],
)
def test_odd_quantities_are_refused(changes: dict[str, str], code: str) -> None:
    """What cannot be told exactly is not rounded; the message shows the value."""
    share = a_share(a_gpu(), consumed=consumed("1Gi") | changes)
    (value,) = changes.values()
    said = refusal_of(share, gpus=(a_gpu(),))
    assert said.startswith(f"{code}: status.allocation.devices.results[gpu]: `{value}`")


@given(st.integers(1, 15999))
def test_the_text_of_the_quantity_does_not_matter(memory_mib: int) -> None:
    """Plain bytes and any suffix give the same MiB."""
    gpu = a_gpu()
    texts = [str(memory_mib * MIB), f"{memory_mib}Mi", f"{memory_mib * 1024}Ki"]
    found = [limits_of(a_share(gpu, text), gpus=(gpu,))[0].memory_mib for text in texts]
    assert found == [memory_mib] * 3


def test_a_device_that_is_gone_is_refused() -> None:
    """The slice is history: the GPU may have been pulled or put into MIG mode."""
    said = refusal_of(a_share(a_gpu(0)), gpus=(a_gpu(1),))
    assert said.startswith("DeviceGone")
    mig = a_mig_gpu(0)
    assert refusal_of(a_share(a_gpu(0)), gpus=(mig,)).startswith("DeviceGone")
