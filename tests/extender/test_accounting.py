"""Peaks, what stays, and nodes that carry it and give it back."""

from copy import deepcopy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.accounting import (
    Booking,
    Use,
    apply,
    closed_devices,
    collapse,
    quota_amounts,
    steady,
    undo,
)
from hami.devices import MigAllocation, MigPlacement, PodDevice, Slots
from tests.extender.nodes import device, gpus, node


def given_device(uuid: str = "G0", mib: int = 0, cores: int = 0) -> PodDevice:
    """Return a part of a GPU."""
    return PodDevice(uuid=uuid, type="NVIDIA", memory_mib=mib, cores=cores)


def one(mib: int, cores: int = 0, uuid: str = "G0") -> tuple[PodDevice, ...]:
    """Return a container with a single device."""
    return (given_device(uuid, mib, cores),)


@pytest.mark.parametrize(
    ("slots", "init_count", "sidecars", "expected"),
    [
        ((one(500, 50), one(100, 10)), 1, (), Use(slots=1, memory_mib=500, cores=50)),
        ((one(100), one(200), one(300)), 1, (), Use(slots=2, memory_mib=500)),
        ((one(100), one(700), one(300)), 3, (), Use(slots=1, memory_mib=700)),
        ((one(1), one(1), one(1)), 0, (), Use(slots=3, memory_mib=3)),
        # An init container, a sidecar, a larger init container beside it, an app.
        ((one(1), one(1), one(2), one(1)), 3, (1,), Use(slots=2, memory_mib=3)),
        ((one(5), one(1), one(2), one(1)), 3, (1,), Use(slots=2, memory_mib=5)),
        (((), one(7)), 1, (), Use(slots=1, memory_mib=7)),
    ],
)
def test_a_pod_takes_its_largest_peak_or_what_stays(
    slots: Slots, init_count: int, sidecars: tuple[int, ...], expected: Use
) -> None:
    """Ordinary init containers run beside the sidecars before them, one at a time."""
    assert collapse({"NVIDIA": slots}, init_count, sidecars) == {"NVIDIA": {"G0": expected}}


def test_init_containers_leave_sidecars_and_apps() -> None:
    """Once they are done, their devices are free."""
    slots = {"NVIDIA": (one(9, uuid="G1"), one(1), one(8), one(2))}
    assert steady(slots, 3, (1,)) == {"NVIDIA": {"G0": Use(slots=2, memory_mib=3)}}


def test_each_device_has_its_own_peak() -> None:
    """An init container and an app on different devices take both."""
    slots = {"NVIDIA": (one(5, uuid="G1"), one(2, uuid="G0"))}
    uses = collapse(slots, 1)["NVIDIA"]
    assert list(uses) == ["G0", "G1"]
    assert quota_amounts("NVIDIA", uses) == (7, 0)


def test_cores_of_a_mask_are_counted_by_bits() -> None:
    """Neuron's cores 2 and 3 are not five cores."""
    uses = {"n": Use(slots=1, cores=3), "m": Use(slots=1, cores=2)}
    assert quota_amounts("AWSNeuron", uses) == (0, 3)


def test_cores_of_a_mask_are_put_together() -> None:
    """The first core of an init container and the second of an app are both taken."""
    slots = {"AWSNeuron": (one(0, 1), one(0, 2))}
    assert collapse(slots, 1) == {"AWSNeuron": {"G0": Use(slots=1, cores=3)}}
    assert steady(slots, 1) == {"AWSNeuron": {"G0": Use(slots=1, cores=2)}}


def test_what_a_node_does_not_have_is_told() -> None:
    """The rest is booked, and comes back."""
    on = gpus(1)
    untouched = deepcopy(on)
    slots = {"NVIDIA": (one(5, uuid="gone") + one(4),), "MLU": (one(1, uuid="m"),)}
    booking = Booking(uid="u", uses=collapse(slots, 0))
    missing = apply(on, booking)
    assert {(each.word, each.uuid) for each in missing} == {("NVIDIA", "gone"), ("MLU", "m")}
    assert on.devices["NVIDIA"][0].used_mib == 4
    undo(on, booking)
    assert on == untouched


def test_a_pod_is_booked_once() -> None:
    """The second time is an error, and changes nothing."""
    on = gpus(2)
    booking = Booking(uid="u", uses=collapse({"NVIDIA": (one(4),)}, 0))
    apply(on, booking)
    once = deepcopy(on)
    with pytest.raises(ValueError, match="is on gpu1 already"):
        apply(on, booking)
    assert on == once


def test_undo_of_a_pod_that_is_not_there_changes_nothing() -> None:
    """Deletions may come twice."""
    on = gpus(1)
    untouched = deepcopy(on)
    undo(on, Booking(uid="u", uses=collapse({"NVIDIA": (one(4),)}, 0)))
    assert on == untouched


def instance(uuid: str = "G0", start: int = 0) -> MigAllocation:
    """Return an instance of one slice."""
    return MigAllocation(
        container_index=0,
        device_index=0,
        gpu_uuid=uuid,
        profile="1g.5gb",
        placement=MigPlacement(start=start, size=1),
    )


@pytest.mark.parametrize(
    ("mode", "told", "closed"),
    [
        ("mig", True, False),
        ("mig", False, True),
        ("hami-core", True, True),
        ("hami-core", False, False),
    ],
)
def test_a_gpu_whose_instances_contradict_the_books_is_closed(
    mode: str,
    told: bool,  # noqa: FBT001
    closed: bool,  # noqa: FBT001
) -> None:
    """Until the pod is gone."""
    on = node(device("G0", mode=mode))
    untouched = deepcopy(on)
    booking = Booking(
        uid="u",
        uses=collapse({"NVIDIA": (one(4864),)}, 0),
        mig=(instance(),) if told else (),
    )
    assert apply(on, booking) == ()
    assert bool(list(closed_devices(on))) == closed
    undo(on, booking)
    assert on == untouched


containers = st.lists(
    st.lists(
        st.builds(
            given_device,
            uuid=st.sampled_from(["G0", "G1", "G2", "unknown"]),
            mib=st.integers(0, 10_000),
            cores=st.integers(0, 100),
        ),
        max_size=3,
    ).map(tuple),
    max_size=5,
)
bookings = st.lists(
    st.tuples(
        st.builds(
            collapse,
            containers.map(lambda found: {"NVIDIA": tuple(found)}),
            st.integers(0, 4),
            st.sets(st.integers(0, 4)),
        ),
        st.lists(st.builds(instance, st.sampled_from(["G0", "unknown"]), st.integers(0, 6))),
    ),
    max_size=6,
)


@given(bookings, st.randoms(use_true_random=False))
def test_undoing_all_pods_in_any_order_restores_the_node(
    found: list[tuple[dict[str, dict[str, Use]], list[MigAllocation]]],
    random: Random,
) -> None:
    """Whatever they took, init containers, unknown devices and instances included."""
    on = gpus(3, mode="mig")
    untouched = deepcopy(on)
    booked = [
        Booking(uid=str(number), uses=uses, mig=tuple(mig))
        for number, (uses, mig) in enumerate(found)
    ]
    for booking in booked:
        apply(on, booking)
    for usage in on.devices["NVIDIA"]:
        of_pods = [each.uses["NVIDIA"].get(usage.device.uuid, Use()) for each in booked]
        assert usage.used_mib == sum(each.memory_mib for each in of_pods)
        assert usage.used_slots == sum(each.slots for each in of_pods)
    random.shuffle(booked)
    for booking in booked:
        undo(on, booking)
    assert on == untouched


@given(containers, st.integers(0, 4), st.sets(st.integers(0, 4)))
def test_what_stays_never_exceeds_what_was_taken(
    found: list[tuple[PodDevice, ...]], init_count: int, sidecars: set[int]
) -> None:
    """So that a pod only ever shrinks once its init containers are done."""
    slots = {"NVIDIA": tuple(found)}
    peak, stays = collapse(slots, init_count, sidecars), steady(slots, init_count, sidecars)
    for uuid, use in stays["NVIDIA"].items():
        assert peak["NVIDIA"][uuid] | use == peak["NVIDIA"][uuid]
