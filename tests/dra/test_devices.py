"""Which devices a node offers for which hardware."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.devices import Offer, SharingPolicy, build_devices
from dra.layout import build_slices
from gpu.model import ComputeMode, Gpu, GpuUuid, PciBusId
from kube.quantity import parse
from sim.apiserver.rules.findings import Findings
from sim.apiserver.rules.slices import check_slice
from tests.dra.gpus import GPU, MIG, inventory_of


def offer_of(*gpus: Gpu, sharing_kept: bool = True, policy: SharingPolicy | None = None) -> Offer:
    """Return what a node with *gpus* offers."""
    return build_devices(
        inventory_of(*gpus), sharing_kept=sharing_kept, policy=policy or SharingPolicy()
    )


def device_of(gpu: Gpu, **options: Any) -> dict[str, Any]:
    """Return the one device that *gpu* becomes."""
    (device,) = offer_of(gpu, **options).devices
    return device


def findings_of(offer: Offer) -> list[str]:
    """Return what an API server would say against the slices of *offer*."""
    found = Findings()
    for item in build_slices(offer.devices, node_name="node-1", node_uid="uid-1"):
        item["spec"]["pool"]["generation"] = 1
        check_slice(found, item, None, server_minor=36)
    return [str(cause) for cause in found.causes]


def test_a_gpu_is_one_device_to_share() -> None:
    """Memory goes to the first bare request, cores to nobody unasked, and ten may share."""
    device = device_of(GPU)
    assert device["name"] == "gpu-d0000000-0000-4000-8000-000000000000"
    assert device["allowMultipleAllocations"] is True
    assert device["attributes"]["mode"] == {"string": "shared"}
    assert device["capacity"] == {
        "memory": {
            "value": "81559Mi",
            "requestPolicy": {
                "default": "81559Mi",
                "validRange": {"min": "1Mi", "step": "1Mi"},
            },
        },
        "cores": {
            "value": "100",
            "requestPolicy": {"default": "0", "validRange": {"min": "0", "step": "1"}},
        },
        "shares": {
            "value": "10",
            "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}},
        },
    }


def test_every_capacity_to_share_has_a_default() -> None:
    """No capacity is consumed whole by a request that does not name it."""
    for capacity in device_of(GPU)["capacity"].values():
        assert "default" in capacity["requestPolicy"]


def test_memory_that_is_no_multiple_of_a_mebibyte_is_accepted() -> None:
    """A T4 with 15843721216 bytes is offered with the whole mebibytes in it."""
    offer = offer_of(replace(GPU, memory_mib=15843721216 // 2**20))
    memory = offer.devices[0]["capacity"]["memory"]
    assert memory["value"] == memory["requestPolicy"]["default"] == "15109Mi"
    assert findings_of(offer) == []


def test_quantities_are_written_as_the_server_writes_them() -> None:
    """80 GiB are `80Gi`, so that nothing looks changed when it comes back."""
    assert device_of(replace(GPU, memory_mib=80 * 1024))["capacity"]["memory"]["value"] == "80Gi"
    policy = SharingPolicy(shares_per_gpu=1000)
    assert device_of(GPU, policy=policy)["capacity"]["shares"]["value"] == "1k"


def test_shares_can_differ_by_gpu() -> None:
    """The number of shares of a UUID wins over that of the node."""
    policy = SharingPolicy(shares_per_gpu=4, shares_by_uuid={GPU.uuid: 2})
    other = replace(GPU, uuid=GpuUuid("GPU-b"), pci_bus_id=PciBusId("0000:04:00.0"))
    shares = [
        device["capacity"]["shares"]["value"]
        for device in offer_of(GPU, other, policy=policy).devices
    ]
    assert shares == ["2", "4"]


@pytest.mark.parametrize(
    ("gpu", "sharing_kept"),
    [
        (GPU, False),
        (replace(GPU, compute_mode=ComputeMode.EXCLUSIVE_PROCESS), True),
    ],
)
def test_what_cannot_be_shared_is_offered_whole(gpu: Gpu, *, sharing_kept: bool) -> None:
    """Without support of the server, or for one process only, a GPU has plain capacities."""
    device = device_of(gpu, sharing_kept=sharing_kept)
    assert device["attributes"]["mode"] == {"string": "exclusive"}
    assert "allowMultipleAllocations" not in device
    assert device["capacity"] == {
        "memory": {"value": "81559Mi"},
        "cores": {"value": "100"},
        "shares": {"value": "1"},
    }


def test_unified_memory_is_offered_whole_without_memory() -> None:
    """A GPU without memory of its own promises none."""
    device = device_of(replace(GPU, memory_mib=None))
    assert device["attributes"]["mode"] == {"string": "exclusive"}
    assert "allowMultipleAllocations" not in device
    assert "memory" not in device["capacity"]


def test_partitions_stand_for_their_gpu() -> None:
    """A GPU in MIG mode is offered as its MIG devices, in the order of their instances."""
    later = replace(MIG, uuid=GpuUuid("MIG-z"), gpu_instance_id=3, compute_instance_id=1)
    first = replace(MIG, uuid=GpuUuid("MIG-y"), gpu_instance_id=3, compute_instance_id=0)
    gpu = replace(GPU, mig_enabled=True, mig_devices=(MIG, later, first))
    devices = offer_of(gpu).devices
    assert [device["name"] for device in devices] == ["mig-y", "mig-z", MIG.uuid.lower()]
    assert devices[0]["attributes"]["mode"] == {"string": "mig"}
    assert devices[0]["capacity"] == {
        "memory": {"value": "9856Mi"},
        "multiprocessors": {"value": "16"},
    }
    assert "allowMultipleAllocations" not in devices[0]


def test_an_empty_mig_gpu_offers_nothing() -> None:
    """In MIG mode without partitions there is nothing to run on."""
    assert offer_of(replace(GPU, mig_enabled=True)) == Offer(devices=())


def test_order_is_that_of_the_bus() -> None:
    """Devices come by PCI bus id, wherever NVML counts them."""
    buses = ("0000:83:00.0", "0000:02:00.0", "0001:01:00.0")
    gpus = [replace(GPU, uuid=GpuUuid(f"GPU-{bus[:7]}"), pci_bus_id=PciBusId(bus)) for bus in buses]
    found = [
        device["attributes"]["resource.kubernetes.io/pciBusID"]["string"]
        for device in offer_of(*gpus).devices
    ]
    assert found == sorted(buses)


def test_a_prohibited_gpu_is_withheld_with_a_reason() -> None:
    """Where no process may run, nothing is offered, and the others are."""
    closed = replace(GPU, compute_mode=ComputeMode.PROHIBITED)
    other = replace(GPU, uuid=GpuUuid("GPU-b"), pci_bus_id=PciBusId("0000:04:00.0"))
    offer = offer_of(closed, other)
    assert [device["name"] for device in offer.devices] == ["gpu-b"]
    (withheld,) = offer.withheld
    assert withheld.uuid == closed.uuid
    assert withheld.refusal.code == "ComputeModeProhibited"


def test_a_bad_device_does_not_take_the_others_with_it() -> None:
    """Nonsense from one GPU, or a UUID that comes twice, costs only that device."""
    tiny = replace(GPU, uuid=GpuUuid("GPU-tiny"), memory_mib=1)
    twin = replace(GPU, pci_bus_id=PciBusId("0000:04:00.0"))
    offer = offer_of(GPU, tiny, twin)
    assert [device["name"] for device in offer.devices] == [GPU.uuid.lower()]
    assert sorted(item.refusal.code for item in offer.withheld) == [
        "DuplicateDevice",
        "InvalidPolicy",
    ]


def test_shares_below_one_are_refused() -> None:
    """A GPU that nobody may share, not even one, is a mistake in the settings."""
    (withheld,) = offer_of(GPU, policy=SharingPolicy(shares_per_gpu=0)).withheld
    assert withheld.refusal.field == "capacity[shares].requestPolicy.default"


ODD_TEXT = st.text(max_size=90)
MIGS = st.builds(
    replace,
    st.just(MIG),
    uuid=ODD_TEXT.map(GpuUuid),
    profile=ODD_TEXT,
    gpu_instance_id=st.integers(0, 14),
    compute_instance_id=st.integers(0, 7),
    memory_mib=st.integers(0, 2**24),
    multiprocessors=st.integers(0, 200),
)
GPUS = st.builds(
    replace,
    st.just(GPU),
    uuid=ODD_TEXT.map(GpuUuid),
    pci_bus_id=ODD_TEXT.map(PciBusId),
    name=ODD_TEXT,
    brand=ODD_TEXT,
    architecture=ODD_TEXT,
    memory_mib=st.none() | st.integers(0, 2**24),
    compute_capability=ODD_TEXT,
    driver_version=ODD_TEXT,
    cuda_driver_version=ODD_TEXT,
    numa_node=st.none() | st.integers(-1, 7),
    pcie_root=st.none() | ODD_TEXT,
    mig_enabled=st.booleans(),
    compute_mode=st.sampled_from(ComputeMode),
    mig_devices=st.lists(MIGS, max_size=4).map(tuple),
)


@given(gpus=st.lists(GPUS, max_size=6), sharing_kept=st.booleans(), shares=st.integers(-1, 5000))
def test_whatever_nvml_reports_is_publishable(
    *, gpus: list[Gpu], sharing_kept: bool, shares: int
) -> None:
    """The API server finds nothing to refuse in any offer, and no device goes missing silently."""
    policy = SharingPolicy(shares_per_gpu=shares)
    offer = offer_of(*gpus, sharing_kept=sharing_kept, policy=policy)
    assert findings_of(offer) == []
    expected = sum(len(gpu.mig_devices) if gpu.mig_enabled else 1 for gpu in gpus)
    assert len(offer.devices) + len(offer.withheld) == expected


@given(st.integers(2, 2**24))
def test_memory_is_kept_to_the_mebibyte(memory_mib: int) -> None:
    """The canonical text says exactly the memory that the GPU has."""
    value = device_of(replace(GPU, memory_mib=memory_mib))["capacity"]["memory"]["value"]
    assert parse(value).value() == memory_mib * 2**20
    assert parse(value).canonical() == value
