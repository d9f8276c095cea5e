"""Tests of what a node offers, for each field that is registered."""

from dataclasses import replace
from typing import Any

import pytest

from gpu.model import Ailment, GpuFault, GpuUuid, Inventory
from hami.annotations import decode_register, encode_register
from hami.deviceconfig import MigProfiles, NvidiaConfig
from hami.devices import MigPlacement, MigProfile, RegisteredDevice
from hami.plugin.model import Offer
from hami.plugin.offering import Known, device_ids, offer, out_of_order, unmatched
from tests.hami.codecs import NVIDIA
from tests.hami.plugin.offers import TWO_T4, configured, read

A = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
B = "GPU-bbbbbbbb-0000-4000-8000-000000000002"
C = "GPU-cccccccc-0000-4000-8000-000000000003"
MIXED = f"""
gpus:
  - {{profile: h100-80gb, uuid: {C}, pci: "0000:81:00.0", numa_node: 1}}
  - {{profile: t4, uuid: {A}, pci: "0000:01:00.0", name: Tesla T4, numa_node: -1}}
  - {{profile: a100-40gb, uuid: {B}, pci: "0000:41:00.0", mig: [3g.20gb, 1g.5gb]}}
"""
ALLOWED = (
    MigProfiles(models=("A30",), profiles=("1g.6gb",)),
    MigProfiles(models=("A100-SXM4-40GB",), profiles=("1g.5gb", "3g.20gb", "7g.40gb")),
)


def offered(text: str, known: Known | None = None, **fields: Any) -> Offer:
    """Return the offer of a node with the GPUs of *text*."""
    return offer(read(text)[0], configured(**fields), known)


def reasons(found: Offer) -> dict[str, str]:
    """Return why each withheld card is withheld."""
    return {each.uuid: each.reason for each in found.withheld}


def uuids(found: Offer) -> list[str]:
    """Return the cards."""
    return [card.uuid for card in found.cards]


def test_a_card() -> None:
    """Cards are in the order of PCI bus ids and have the values of HAMi's plugin."""
    inventory, _ = read(MIXED)
    gpus = [replace(gpu, numa_node=1 if gpu.uuid == C else None) for gpu in inventory.gpus]
    found = offer(replace(inventory, gpus=tuple(gpus)), configured())
    assert found.cards == (
        RegisteredDevice(
            word="NVIDIA",
            uuid=A,
            index=0,
            count=10,
            memory_mib=15360,
            cores=100,
            type="NVIDIA-Tesla T4",
            numa=0,
            mode="hami-core",
            healthy=True,
        ),
        RegisteredDevice(
            word="NVIDIA",
            uuid=C,
            index=2,
            count=10,
            memory_mib=81559,
            cores=100,
            type="NVIDIA H100 80GB HBM3",
            numa=1,
            mode="hami-core",
            healthy=True,
        ),
    )
    assert reasons(found) == {B: "MIG is switched on, and migstrategy is none"}


def test_ids_for_kubelet() -> None:
    """Kubelet knows as many parts of a GPU as containers may share it, and a partition as it is."""
    card, other = offered(MIXED, devicesplitcount=3).cards
    assert device_ids(card) == (f"{A}-0", f"{A}-1", f"{A}-2")
    assert set(device_ids(card)).isdisjoint(device_ids(other))
    partition = replace(card, uuid="MIG-1", count=1)
    assert device_ids(partition) == ("MIG-1",)


@pytest.mark.parametrize(
    ("fields", "memory_mib", "cores"),
    [
        ({"devicememoryscaling": 1.8}, 27648, 100),
        ({"devicememoryscaling": 0.3333}, 5119, 100),
        ({"devicecorescaling": 1.15}, 15360, 115),
        ({"devicecorescaling": 0.015}, 15360, 1),
        ({"devicecorescaling": 5, "devicememoryscaling": "2"}, 30720, 500),
    ],
)
def test_scaling(fields: dict[str, Any], memory_mib: int, cores: int) -> None:
    """Memory and cores are multiplied exactly, and what is left over is not there."""
    card = offered(TWO_T4, **fields).cards[0]
    assert (card.memory_mib, card.cores) == (memory_mib, cores)


def test_memory_that_is_the_hosts() -> None:
    """A GPU without memory of its own has what is configured, or is withheld with the reason."""
    text = "gpus: [{profile: gb10}, {profile: t4}]"
    found = offered(text)
    assert len(found.cards) == 1
    assert "preconfigureddevicememory is not set" in found.withheld[0].reason
    found = offered(text, preconfigureddevicememory=65536, devicememoryscaling=1.5)
    assert found.cards[0].memory_mib == 98304
    assert found.cards[1].memory_mib == 23040
    assert not found.withheld


def test_compute_modes() -> None:
    """A GPU for one process is for one container, one that nobody may open is withheld."""
    found = offered(
        "gpus: [{profile: t4, compute_mode: exclusive-process},"
        f" {{profile: t4, compute_mode: prohibited, uuid: {B}}}]"
    )
    assert [card.count for card in found.cards] == [1]
    assert "nvidia-smi -c DEFAULT" in reasons(found)[B]


@pytest.mark.parametrize("fields", [{"uuid": [A]}, {"uuid": [A.upper()]}, {"index": ["0"]}])
def test_a_filtered_card_is_nowhere(fields: dict[str, Any]) -> None:
    """What is filtered is in no list of the offer but that of what is withheld."""
    found = offered(MIXED, filterdevices=fields)
    assert uuids(found) == [C]
    assert found.cards[0].index == 2
    assert reasons(found)[A] == "filtered by inline nodeconfig[0]"
    assert A not in encode_register(NVIDIA, found.cards)


def test_all_filtered() -> None:
    """A node may offer nothing at all; the annotation then says so."""
    found = offered(TWO_T4, filterdevices={"index": [0, 1]})
    assert not found.cards
    assert len(found.withheld) == 2
    assert encode_register(NVIDIA, found.cards) == "[]"


def test_filters_that_fit_nothing() -> None:
    """A filter of a GPU that the node does not have is told, unless that cannot be known."""
    inventory, _ = read(MIXED)
    config = configured(filterdevices={"uuid": [A, "GPU-x"], "index": [2, 3]})
    assert unmatched(inventory, config) == ("GPU-x", "index 3")
    assert unmatched(replace(inventory, faults=(a_fault(3),)), config) == ()


def a_fault(index: int, uuid: str | None = None, bus: str | None = None) -> GpuFault:
    """Return a GPU that fell off its bus."""
    return GpuFault(
        index=index,
        uuid=GpuUuid(uuid) if uuid else None,
        pci_bus_id=bus,  # type: ignore[arg-type]
        reason="GPU_IS_LOST",
        call="nvmlDeviceGetName",
    )


def test_an_ailing_card_is_not_healthy() -> None:
    """What ails a GPU makes it unhealthy and no other, and it keeps its place."""
    inventory, _ = read(MIXED)
    ailment = Ailment(uuid=GpuUuid(C), code="Xid79", message="gone")
    found = offer(replace(inventory, ailments=(ailment,)), configured())
    assert [(card.uuid, card.healthy) for card in found.cards] == [(A, True), (C, False)]
    found = offer(inventory, configured())
    assert all(card.healthy for card in found.cards)
    assert not any(card.healthy for card in out_of_order(found).cards)


@pytest.mark.parametrize("lost", range(8))
def test_one_lost_card_of_eight(lost: int) -> None:
    """The other seven are offered with their places; the lost one stays if it was known before."""
    entries = [f"{{profile: t4, uuid: GPU-{at}}}" for at in range(8)]
    before, _ = read(f"gpus: [{', '.join(entries)}]")
    entries[lost] = f"{{profile: t4, uuid: GPU-{lost}, errors: {{all: GPU_IS_LOST}}}}"
    now, _ = read(f"gpus: [{', '.join(entries)}]")
    assert len(now.faults) == 1
    found = offer(now, configured())
    assert [card.index for card in found.cards] == [at for at in range(8) if at != lost]
    assert "cannot be read" in found.withheld[0].reason
    assert "GPU_IS_LOST" in found.withheld[0].reason
    named = replace(now, faults=(replace(now.faults[0], uuid=GpuUuid(f"GPU-{lost}")),))
    found = offer(named, configured(), Known(seen={gpu.uuid: gpu for gpu in before.gpus}))
    assert [card.index for card in found.cards] == list(range(8))
    assert [card.uuid for card in found.cards if not card.healthy] == [f"GPU-{lost}"]
    assert not found.withheld


def test_faults_have_places() -> None:
    """A GPU that names its bus is in the order of buses, another one where NVML has it."""
    inventory, _ = read(MIXED)
    faults = (a_fault(0), a_fault(2, bus="0000:31:00.0"))
    found = offer(replace(inventory, faults=faults), configured(migstrategy="mixed"))
    assert [card.index for card in found.cards] == [1, 3, 3, 4]
    assert len(found.withheld) == 2
    assert "GPU 0000:31:00.0 cannot" in found.withheld[1].reason


def test_strategy_mixed() -> None:
    """Partitions are offered as they are, each for one container, beside the other GPUs."""
    found = offered(MIXED, migstrategy="mixed", devicememoryscaling=2, devicecorescaling=2)
    assert [card.uuid[:4] for card in found.cards] == ["GPU-", "MIG-", "MIG-", "GPU-"]
    large = next(card for card in found.cards if "3g.20gb" in card.type)
    assert large == replace(
        large,
        index=1,
        count=1,
        memory_mib=19968,
        cores=100,
        type="NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        mode="hami-core",
        healthy=True,
        mig_profiles=(),
    )
    assert not found.withheld


def test_strategy_single() -> None:
    """Partitions are offered where the node has nothing else and all are alike."""
    alike = (
        "gpus: [{profile: a100-40gb, mig: [1g.5gb, 1g.5gb]}, {profile: a100-40gb, mig: [1g.5gb]}]"
    )
    assert len(offered(alike, migstrategy="single").cards) == 3
    found = offered(MIXED, migstrategy="single")
    assert uuids(found) == [A, C]
    assert "not all GPUs have partitions of one kind" in reasons(found)[B]
    found = offered(MIXED, migstrategy="single", filterdevices={"uuid": [A, C]})
    assert not found.cards


def test_parts_of_mig_gpus() -> None:
    """A filter or an ailment of a partition is about it alone, one of its GPU about all."""
    inventory, _ = read(MIXED)
    one, two = next(gpu for gpu in inventory.gpus if gpu.uuid == B).mig_devices
    found = offer(inventory, configured(migstrategy="mixed", filterdevices={"uuid": [one.uuid]}))
    assert uuids(found) == [A, two.uuid, C]
    found = offer(inventory, configured(migstrategy="mixed", filterdevices={"uuid": [B]}))
    assert uuids(found) == [A, C]

    def unwell(uuid: str) -> list[str]:
        ailment = Ailment(uuid=GpuUuid(uuid), code="Xid94", message="contained")
        ill = offer(replace(inventory, ailments=(ailment,)), configured(migstrategy="mixed"))
        return [card.uuid for card in ill.cards if not card.healthy]

    assert unwell(one.uuid) == [one.uuid]
    assert unwell(B) == [one.uuid, two.uuid]


def test_mig_without_partitions() -> None:
    """A GPU with MIG switched on can do nothing without partitions."""
    text = "gpus: [{profile: a100-40gb, mig: []}]"
    assert "it has no partitions" in offered(text, migstrategy="mixed").withheld[0].reason


def test_mig_mode() -> None:
    """In mode mig a card tells its profiles, and as many containers as instances fit."""
    inventory, profiles = read("gpus: [{profile: a100-40gb, mig: []}, {profile: t4}]")
    config = configured(
        NvidiaConfig(mig_profile_allowlist=ALLOWED),
        operatingmode="mig",
        devicememoryscaling=2,
        devicecorescaling=3,
    )
    found = offer(inventory, config, Known(profiles=profiles))
    (card,) = found.cards
    assert (card.mode, card.count, card.memory_mib, card.cores) == ("mig", 7, 40960, 100)
    assert [profile.name for profile in card.mig_profiles] == ["1g.5gb", "3g.20gb", "7g.40gb"]
    assert card.mig_profiles[1] == MigProfile(
        name="3g.20gb",
        memory_mib=19968,
        cores=43,
        slice_count=3,
        placements=(MigPlacement(start=0, size=4), MigPlacement(start=4, size=4)),
    )
    assert card.mig_profiles[0].cores == 15
    assert "no MIG profile is allowed for" in found.withheld[0].reason
    written = encode_register(NVIDIA, found.cards)
    assert decode_register(NVIDIA, written, node_name="n") == found.cards


def test_mig_mode_without_mig() -> None:
    """The agent does not switch MIG on, and says how that is done."""
    inventory, profiles = read("gpus: [{profile: a100-40gb}]")
    config = configured(NvidiaConfig(mig_profile_allowlist=ALLOWED), operatingmode="mig")
    found = offer(inventory, config, Known(profiles=profiles))
    assert not found.cards
    assert "MIG is not switched on: `nvidia-smi -i 0000:01:00.0 -mig 1`" in (
        found.withheld[0].reason
    )


def test_mig_mode_that_nobody_serves() -> None:
    """Where no instances are made, no card is offered from which the scheduler would take one."""
    found = offered(MIXED, operatingmode="mig")
    assert not found.cards
    assert {each.reason for each in found.withheld} == {
        "operatingmode is mig, and this agent makes no MIG instances"
    }


def test_twins_and_odd_names() -> None:
    """A second card of one UUID is withheld, and no name breaks the annotation of the others."""
    inventory, _ = read(MIXED)
    first = inventory.gpus[0]
    odd = replace(inventory, gpus=(replace(first, name="Odd, 1:2;"), first))
    found = offer(odd, configured())
    assert [card.type for card in found.cards] == ["NVIDIA-Odd  1 2 "]
    assert reasons(found) == {A: "another card has the same UUID"}


def test_a_node_without_gpus() -> None:
    """There is nothing to offer and nothing to withhold."""
    nothing = Inventory(driver_version="", cuda_driver_version="", gpus=())
    assert offer(nothing, configured()) == Offer(cards=())
