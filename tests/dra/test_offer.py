"""What a node offers: which device is tainted, which is kept although it is gone, and the order."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.devices import build_devices
from dra.offer import (
    GONE,
    TAINT_DUAL,
    TAINT_UNHEALTHY,
    Effect,
    Kept,
    Offered,
    OfferRules,
    Situation,
    make_offer,
)
from dra.rivals import Rival
from dra.validation import check_device
from gpu.model import Ailment, ComputeMode, GpuFault, GpuUuid, Inventory, PciBusId
from gpu.names import device_name
from kube.objects import JsonObject
from tests.dra.gpus import GPU, MIG, inventory_of, many_gpus

ALL = Kept(sharing=True, taints=True)
FIRST, SECOND, THIRD = many_gpus(3)
MIG_GPU = replace(GPU, mig_enabled=True, mig_devices=(MIG,))


def published_by(inventory: Inventory) -> dict[str, JsonObject]:
    """Return the devices of a healthy *inventory* as a server has them, by name."""
    offer = make_offer(Situation(inventory=inventory), kept=ALL, rules=OfferRules())
    return {device["name"]: device for device in offer.devices}


def offer(inventory: Inventory | None, kept: Kept = ALL, **situation: Any) -> Offered:
    """Return the offer of *inventory* in a *situation*."""
    rules = situation.pop("rules", OfferRules())
    return make_offer(Situation(inventory=inventory, **situation), kept=kept, rules=rules)


def taints(offered: Offered) -> dict[str, list[tuple[str, str, str]]]:
    """Return the taints of each device that has any, by its UUID."""
    return {
        device["attributes"]["uuid"]["string"]: [
            (taint["key"], taint["value"], taint["effect"]) for taint in device["taints"]
        ]
        for device in offered.devices
        if "taints" in device
    }


def ailing(uuid: str, code: str = "Xid79") -> Ailment:
    """Return an ailment of the device *uuid*."""
    return Ailment(uuid=GpuUuid(uuid), code=code, message="it fell off the bus")


def fault(uuid: str | None, reason: str = "GPU_IS_LOST") -> GpuFault:
    """Return a fault of the GPU *uuid*."""
    return GpuFault(
        index=0,
        uuid=GpuUuid(uuid) if uuid else None,
        pci_bus_id=None,
        reason=reason,
        call="nvmlDeviceGetMemoryInfo",
    )


def rival(source: str) -> Rival:
    """Return somebody else who offers a device."""
    return Rival(source=source, message=f"{source} offers it too")


def names(offered: Offered) -> list[str]:
    """Return the names of the devices in order."""
    return [device["name"] for device in offered.devices]


def test_a_healthy_node_offers_what_it_has() -> None:
    """Without anything wrong the offer is the devices alone."""
    inventory = inventory_of(FIRST, SECOND)
    offered = offer(inventory)
    rules = OfferRules()
    assert (
        offered.devices == build_devices(inventory, sharing_kept=True, policy=rules.sharing).devices
    )
    assert (offered.withheld, offered.tainted, offered.has_gone) == ((), (), False)
    assert [each.healthy for each in offered.health] == [True, True]


@pytest.mark.parametrize("effect", list(Effect))
def test_an_ailing_gpu_is_tainted_with_the_reason(effect: Effect) -> None:
    """The effect is the administrator's choice; the other GPU is untouched."""
    inventory = replace(inventory_of(FIRST, SECOND), ailments=(ailing(SECOND.uuid),))
    offered = offer(inventory, rules=OfferRules(unhealthy_effect=effect))
    assert taints(offered) == {SECOND.uuid: [(TAINT_UNHEALTHY, "Xid79", effect.value)]}
    (noted,) = offered.tainted
    assert noted.uuid == SECOND.uuid
    assert str(noted.refusal).startswith(f"Xid79: device: `{SECOND.uuid}`; it gets no new work")
    assert [(each.name, each.healthy, each.code) for each in offered.health] == [
        (device_name(FIRST.uuid), True, ""),
        (device_name(SECOND.uuid), False, "Xid79"),
    ]


def test_where_taints_are_dropped_an_ailing_gpu_is_withdrawn() -> None:
    """A server that keeps no taints is not shown the device, and the health is still told."""
    inventory = replace(inventory_of(FIRST, SECOND), ailments=(ailing(SECOND.uuid),))
    offered = offer(inventory, Kept(sharing=True, taints=False))
    assert names(offered) == [device_name(FIRST.uuid)]
    assert [noted.refusal.code for noted in offered.withheld] == ["Xid79"]
    assert offered.tainted == ()
    assert [each.healthy for each in offered.health] == [True, False]


def test_a_gpu_ails_with_all_its_parts_and_a_part_alone() -> None:
    """The GPU's ailment is that of its MIG devices; a MIG device's is its own."""
    other = replace(MIG, uuid=GpuUuid("MIG-other"), gpu_instance_id=8)
    gpu = replace(MIG_GPU, mig_devices=(MIG, other))
    whole = offer(replace(inventory_of(gpu), ailments=(ailing(gpu.uuid),)))
    assert set(taints(whole)) == {MIG.uuid, other.uuid}
    part = offer(replace(inventory_of(gpu), ailments=(ailing(other.uuid),)))
    assert set(taints(part)) == {other.uuid}


def test_a_gpu_that_cannot_be_read_stays_with_a_taint_in_its_place() -> None:
    """The device that the server has is kept as it is, whether a claim holds it or not."""
    before = published_by(inventory_of(FIRST, SECOND, THIRD))
    now = replace(inventory_of(FIRST, THIRD), faults=(fault(SECOND.uuid),))
    offered = offer(now, published=before)
    assert names(offered) == list(before)
    assert taints(offered) == {SECOND.uuid: [(TAINT_UNHEALTHY, "GpuIsLost", "NoSchedule")]}
    kept = {key: value for key, value in offered.devices[1].items() if key != "taints"}
    assert kept == before[device_name(SECOND.uuid)]


@pytest.mark.parametrize(
    ("reason", "effect"),
    [("GPU_IS_LOST", Effect.NO_EXECUTE), ("TIMEOUT", Effect.NO_SCHEDULE)],
)
def test_nobody_is_evicted_for_a_call_that_failed(reason: str, effect: Effect) -> None:
    """A lost GPU is worth it, a call that took too long is not, nor a driver that is away."""
    rules = OfferRules(unhealthy_effect=Effect.NO_EXECUTE)
    before = published_by(inventory_of(FIRST))
    now = replace(inventory_of(), faults=(fault(FIRST.uuid, reason),))
    (((_, _, found),),) = taints(offer(now, published=before, rules=rules)).values()
    assert found == effect.value
    away = offer(now, published=before, rules=rules, failure=ailing("", code="DriverNotLoaded"))
    assert [effect for ((_, _, effect),) in taints(away).values()] == ["NoSchedule"]


def test_the_parts_of_an_unreadable_gpu_stay_too() -> None:
    """MIG devices are named by their parent in a fault."""
    before = published_by(inventory_of(MIG_GPU))
    offered = offer(replace(inventory_of(), faults=(fault(MIG_GPU.uuid),)), published=before)
    assert set(taints(offered)) == {MIG.uuid}


def test_an_unreadable_gpu_that_the_server_does_not_have_is_not_invented() -> None:
    """There is no device to taint."""
    assert names(offer(replace(inventory_of(), faults=(fault(FIRST.uuid),)))) == []


def test_a_gone_gpu_is_kept_while_a_claim_holds_it() -> None:
    """It is tainted for as long, and then withdrawn; one that nobody holds goes at once."""
    before = published_by(inventory_of(FIRST, SECOND))
    held = frozenset({device_name(SECOND.uuid)})
    offered = offer(inventory_of(), published=before, held=held)
    assert taints(offered) == {SECOND.uuid: [(TAINT_UNHEALTHY, GONE, "NoSchedule")]}
    assert names(offered) == [device_name(SECOND.uuid)]
    assert offered.has_gone
    again = {device["name"]: device for device in offered.devices}
    assert names(offer(inventory_of(), published=again)) == []
    back = offer(inventory_of(FIRST, SECOND), published=again, held=held)
    assert back.devices == tuple(before.values())


def test_a_withheld_gpu_is_not_kept_from_before() -> None:
    """A GPU that may not be offered is there: the published device does not speak for it."""
    before = published_by(inventory_of(FIRST))
    closed = inventory_of(replace(FIRST, compute_mode=ComputeMode.PROHIBITED))
    offered = offer(closed, published=before, held=frozenset(before))
    assert offered.devices == ()
    assert [noted.refusal.code for noted in offered.withheld] == ["ComputeModeProhibited"]


@pytest.mark.parametrize("inventory", [None, inventory_of(FIRST)])
def test_without_a_driver_everything_published_is_tainted(inventory: Inventory | None) -> None:
    """A driver that is being replaced takes no work, and a device the server lacks stays away."""
    before = published_by(inventory_of(FIRST, SECOND))
    failure = ailing("", code="DriverNotLoaded")
    offered = offer(inventory, failure=failure, published=before)
    assert [value for ((_, value, _),) in taints(offered).values()] == ["DriverNotLoaded"] * 2
    assert names(offered) == list(before)


def test_a_device_that_somebody_else_offers_too_is_tainted() -> None:
    """The taint names the rival, never evicts, and says nothing of the device's health."""
    offered = offer(
        replace(inventory_of(FIRST, SECOND), ailments=(ailing(FIRST.uuid),)),
        rivals={FIRST.uuid: rival("nvidia.com/gpu"), SECOND.uuid: rival("gpu.nvidia.com")},
        rules=OfferRules(unhealthy_effect=Effect.NO_EXECUTE),
    )
    assert taints(offered) == {
        FIRST.uuid: [
            (TAINT_UNHEALTHY, "Xid79", "NoExecute"),
            (TAINT_DUAL, "nvidia.com-gpu", "NoSchedule"),
        ],
        SECOND.uuid: [(TAINT_DUAL, "gpu.nvidia.com", "NoSchedule")],
    }
    assert [each.healthy for each in offered.health] == [False, True]
    codes = [noted.refusal.code for noted in offered.tainted]
    assert codes == ["Xid79", "DualAdvertised", "DualAdvertised"]


@given(code=st.text(max_size=90), source=st.text(min_size=1, max_size=90))
def test_taints_keep_the_rules_of_the_server(code: str, source: str) -> None:
    """Whatever a rival or an error is called, the device stays valid."""
    inventory = replace(inventory_of(FIRST), ailments=(ailing(FIRST.uuid, code),))
    for device in offer(inventory, rivals={FIRST.uuid: rival(source)}).devices:
        check_device(device)


@given(st.permutations(range(3)), st.sets(st.integers(0, 2)))
def test_the_order_of_devices_does_not_depend_on_what_failed(
    order: list[int], failed: set[int]
) -> None:
    """A device keeps its place among the others while it cannot be read."""
    gpus = (FIRST, SECOND, THIRD)
    before = published_by(inventory_of(*gpus))
    now = replace(
        inventory_of(*(gpus[index] for index in order if index not in failed)),
        faults=tuple(fault(gpus[index].uuid) for index in failed),
    )
    assert names(offer(now, published=before)) == list(before)


def test_gpus_on_one_bus_keep_their_order() -> None:
    """Devices without an order of their own stay as the server has them."""
    twin = replace(FIRST, uuid=GpuUuid("GPU-twin"), pci_bus_id=PciBusId(FIRST.pci_bus_id))
    before = published_by(inventory_of(FIRST, twin))
    assert names(offer(inventory_of(FIRST, twin), published=before)) == list(before)
