"""Whatever pods come, no device is ever given more often or more of it than it has."""

from collections.abc import Iterator
from copy import deepcopy
from itertools import combinations
from random import Random
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from extender.accounting import Booking, apply, collapse, steady, undo
from extender.fitting import migpacking
from extender.model import Ask, DeviceUsage, Misfit, NodeUsage, Placement, Policies
from hami.containers import ContainerKind
from tests.extender.nodes import (
    ALL_VENDORS,
    MIG_PROFILES,
    ask,
    container,
    device,
    fit,
    limited,
    node,
    pod,
)
from tests.extender.vendornodes import made_up

POLICY_KEY: Final = "hami.io/gpu-scheduler-policy"
POLICIES: Final = ("binpack", "spread", "mutex", "numa,binpack", "topology-aware", "numa,spread")
CAPACITY: Final = {
    "cambricon.com/mlu.smlu.vcore": "200",
    "cambricon.com/mlu.smlu.vmemory": "128",
    "mthreads.com/sgpu-core": "32",
    "mthreads.com/sgpu-memory": "192",
    "metax-tech.com/gpu": "3",
    "kunlunxin.com/xpu": "8",
    "enflame.com/gcu": "2",
    "aws.amazon.com/neuron": "4",
    "aws.amazon.com/neuroncore": "8",
}
MADE_UP: Final = ("MLU", "Mthreads", "Metax-GPU", "kunlun", "GCU", "AWSNeuron")
OTHERS: Final[tuple[dict[str, int], ...]] = (
    {"cambricon.com/vmlu": 1},
    {"cambricon.com/vmlu": 2, "cambricon.com/mlu.smlu.vcore": 30},
    {"mthreads.com/vgpu": 1},
    {"mthreads.com/vgpu": 1, "mthreads.com/sgpu-memory": 32, "mthreads.com/sgpu-core": 4},
    {"metax-tech.com/gpu": 1},
    {"kunlunxin.com/xpu": 2},
    {"enflame.com/gcu": 1},
    {"aws.amazon.com/neuron": 1},
    {"aws.amazon.com/neuroncore": 1},
    {"amd.com/gpu": 1, "amd.com/gpumem": 9000, "amd.com/gpucores": 30},
    {"amd.com/gpu": 2},
    {"metax-tech.com/sgpu": 1, "metax-tech.com/vcore": 40, "metax-tech.com/vmemory": 8},
    {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 24576},
    {"kunlunxin.com/vxpu": 2, "kunlunxin.com/vxpu-memory": 49152},
    {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 16384},
    {"huawei.com/Ascend910C": 2},
    {"vastaitech.com/va": 2},
    {"birentech.com/gpu": 1},
    {"hygon.com/dcunum": 1, "hygon.com/dcumem": 5000, "hygon.com/dcucores": 100},
)
REGISTERED: Final = (
    ("AMD", 304),
    ("Metax-SGPU", 100),
    ("XPU", 100),
    ("Ascend910B3", 20),
    ("Ascend910C", 20),
    ("Vastai", 100),
    ("Biren", 100),
    ("DCU", 100),
)

gpu_limits = st.fixed_dictionaries(
    {"gpu": st.integers(1, 3)},
    optional={
        "mem": st.integers(0, 50_000),
        "percent": st.integers(1, 100),
        "cores": st.sampled_from([0, 1, 30, 50, 100]),
    },
)


@st.composite
def pods(draw: st.DrawFn, limits: st.SearchStrategy[dict[str, int]]) -> dict[str, Any]:
    """Return a pod of a few containers of every kind, at least one of which asks."""
    apps = [
        container(f"c{number}", **each)
        for number, each in enumerate(draw(st.lists(limits, min_size=1, max_size=2)))
    ]
    inits = []
    for number, each in enumerate(draw(st.lists(limits, max_size=2))):
        init = container(f"i{number}", **each)
        inits.append(init | ({"restartPolicy": "Always"} if draw(st.booleans()) else {}))
    annotations = {"hami.io/gpu-scheduler-policy": draw(st.sampled_from(POLICIES))}
    if draw(st.booleans()):
        annotations["nvidia.com/numa-bind"] = "true"
    return pod(*apps, init=inits, annotations=annotations)


@st.composite
def gpu_nodes(draw: st.DrawFn) -> NodeUsage:
    """Return a node of NVIDIA GPUs, some scaled, cut, or ill."""
    found = []
    for index in range(draw(st.integers(1, 5))):
        is_cut = draw(st.integers(0, 3)) == 0
        found.append(
            device(
                f"G{index}",
                index,
                numa=draw(st.integers(0, 1)),
                count=7 if is_cut else draw(st.integers(1, 10)),
                cores=100 if is_cut else draw(st.sampled_from([100, 100, 200, 0])),
                mode="mig" if is_cut else "hami-core",
                mig_profiles=MIG_PROFILES if is_cut else (),
                healthy=draw(st.integers(0, 5)) > 0,
            )
        )
    return node(*found)


def all_vendors() -> NodeUsage:
    """Return a node with devices of everybody."""
    devices = [
        device(
            f"{word}-{index}",
            index,
            word=word,
            type=word,
            cores=cores,
            memory_mib=98304,
            mode="",
            custom={"AIC": str(index // 2), "DeviceStrategy": "die", "NetworkID": index // 2},
        )
        for word, cores in REGISTERED
        for index in range(4)
    ]
    on = node(*devices)
    for word in MADE_UP:
        on.devices |= made_up(word)(CAPACITY).devices
    return on


def usages(on: NodeUsage) -> Iterator[DeviceUsage]:
    """Yield every device of a node."""
    for devices in on.devices.values():
        yield from devices


def sections(wanted: Ask) -> tuple[int, list[int]]:
    """Return how many init containers there are, and which of them stay."""
    kinds = [each.container.kind for each in wanted.valid.requests]
    count = sum(kind is not ContainerKind.APP for kind in kinds)
    return count, [at for at, kind in enumerate(kinds) if kind is ContainerKind.SIDECAR]


def booked(on: NodeUsage, raw: dict[str, Any], uid: str) -> Booking | Misfit:
    """Try a pod, and book it if it fits."""
    found = fit(on, raw)
    if isinstance(found, Misfit):
        return found
    uses = collapse(found.slots, *sections(ask(raw)))
    booking = Booking(uid=uid, uses=uses, mig=found.mig, annotations=raw["metadata"]["annotations"])
    assert apply(on, booking) == ()
    assert_given_as_asked(ask(raw), found)
    return booking


def assert_given_as_asked(wanted: Ask, found: Placement) -> None:
    """Every container has what it asked for, and the others an empty position."""
    for position, request in enumerate(wanted.valid.requests):
        asked = {each.word: each for each in request.devices}
        for word, slots in found.slots.items():
            assert len(slots) == len(wanted.valid.requests)
            given_here = slots[position]
            assert len(given_here) == (asked[word].count if word in asked else 0)
            names = {each.uuid for each in given_here}
            assert len(names) == len(given_here) or found.mig


def assert_within(on: NodeUsage) -> None:
    """No device has more on it than there is."""
    for each in usages(on):
        of = each.device
        assert 0 <= each.used_slots <= of.count
        assert 0 <= each.used_mib <= of.memory_mib or of.word in {"Vastai", "Biren"}
        if of.mode == "mig":
            by_pod = [each.placement for each in each.mig]
            assert len(by_pod) >= each.used_slots
        else:
            assert 0 <= each.used_cores <= of.cores


def assert_counts_add_up(misfit: Misfit) -> None:
    """Every device is counted once, where each is looked at once."""
    if misfit.devices:
        assert sum(misfit.reasons.values()) == misfit.devices, misfit


@given(gpu_nodes(), st.lists(pods(gpu_limits), max_size=8), st.randoms(use_true_random=False))
def test_gpus_are_never_given_beyond_what_they_have(
    on: NodeUsage, wanted: list[dict[str, Any]], random: Random
) -> None:
    """And taking all pods away again, in any order, leaves the node as it was."""
    untouched = deepcopy(on)
    bookings = []
    cut = any(each.device.mode == "mig" for each in usages(on))
    for number, raw in enumerate(wanted):
        before = deepcopy(on)
        found = booked(on, raw, str(number))
        if isinstance(found, Misfit):
            assert on == before
            if not cut and "topology" not in raw["metadata"]["annotations"][POLICY_KEY]:
                assert_counts_add_up(found)
        else:
            bookings.append(found)
        assert_within(on)
    random.shuffle(bookings)
    for booking in bookings:
        undo(on, booking)
    assert on == untouched


@given(
    gpu_nodes(),
    st.lists(
        pods(gpu_limits).map(lambda raw: raw | {"spec": {"containers": raw["spec"]["containers"]}})
    ),
)
def test_whole_gpus_are_nobody_elses(on: NodeUsage, wanted: list[dict[str, Any]]) -> None:
    """A request of all cores has its GPU alone; instances never overlap."""
    alone: set[str] = set()
    for number, raw in enumerate(wanted):
        found = booked(on, raw, str(number))
        if isinstance(found, Booking):
            for uuid, use in found.uses["NVIDIA"].items():
                gpu = next(each for each in usages(on) if each.device.uuid == uuid)
                assert uuid not in alone
                if use.cores == gpu.device.cores == 100 and use.slots == 1:
                    alone.update({uuid} if gpu.device.mode != "mig" else ())
    for gpu in usages(on):
        places = [each.placement for each in gpu.mig]
        assert all(migpacking.is_free(one, [two]) for one, two in combinations(places, 2))


@given(st.lists(pods(st.sampled_from(OTHERS)), max_size=12), st.randoms(use_true_random=False))
def test_devices_of_no_vendor_are_given_beyond_what_they_have(
    wanted: list[dict[str, Any]], random: Random
) -> None:
    """Bits of masks included; init containers that are done only give back."""
    on = all_vendors()
    untouched = deepcopy(on)
    bookings: list[Booking] = []
    for number, raw in enumerate(wanted):
        found = booked(on, raw, str(number))
        if isinstance(found, Booking):
            bookings.append(found)
        assert_within(on)
        if bookings and random.random() < 0.3:
            gone = bookings.pop(random.randrange(len(bookings)))
            undo(on, gone)
            assert_within(on)
    for booking in bookings:
        undo(on, booking)
    assert on == untouched


@given(gpu_nodes(), pods(gpu_limits))
def test_every_stage_of_a_pod_fits_by_itself(on: NodeUsage, raw: dict[str, Any]) -> None:
    """Each ordinary init container with the sidecars before it, and at last all that stay."""
    found = fit(on, raw, policies=Policies(gpu_policy="binpack"))
    if isinstance(found, Misfit):
        return
    wanted = ask(raw)
    kinds = [each.container.kind for each in wanted.valid.requests]
    stages = [
        [*(at for at in range(here) if kinds[at] is ContainerKind.SIDECAR), here]
        for here, kind in enumerate(kinds)
        if kind is ContainerKind.INIT
    ]
    stages.append([at for at, kind in enumerate(kinds) if kind is not ContainerKind.INIT])
    for stage in stages:
        slots = {word: tuple(given[at] for at in stage) for word, given in found.slots.items()}
        trial = deepcopy(on)
        mig = tuple(each for each in found.mig if each.container_index in stage)
        apply(trial, Booking(uid="u", uses=steady(slots, 0), mig=mig))
        assert_within(trial)
        for gpu in usages(trial):
            places = [each.placement for each in gpu.mig]
            assert all(migpacking.is_free(one, [two]) for one, two in combinations(places, 2))


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)
CUSTOM: Final = ("NetworkID", "AIC", "DeviceStrategy", "QosPolicy", "LinkZone", "profiles")


@given(
    st.sampled_from(OTHERS),
    st.dictionaries(st.sampled_from([*CUSTOM, "maxSlice", "index"]), anything),
    st.lists(st.integers(0, 2**31 - 1), min_size=4, max_size=4),
)
def test_no_node_makes_a_decision_fail(
    limits: dict[str, int], custom: dict[str, Any], sizes: list[int]
) -> None:
    """Whatever it registers."""
    count, memory_mib, cores, index = sizes
    words = {each.word for each in ALL_VENDORS.vendors}
    on = node(
        *(
            device(
                f"{word}-{number}",
                index + number,
                word=word,
                type=word,
                count=count,
                memory_mib=memory_mib,
                cores=cores,
                custom=custom,
            )
            for word in sorted(words)
            for number in range(2)
        )
    )
    assert isinstance(fit(on, pod(limited(**limits))), Placement | Misfit)
