"""What the scheduler gives for translated requests, on GPUs as they are published."""

from typing import Any

import pytest

from gpu.names import device_name
from hami.deviceconfig import DeviceConfig
from kube.objects import JsonObject
from sim.scheduler.allocator import Outcome
from tests.webhook.claimcases import CASES, ClaimCase
from tests.webhook.translating import (
    a_container,
    a_gpu,
    a_mig_gpu,
    a_pod,
    a_slice,
    allocate,
    an_exclusive_gpu,
    given,
    held,
    only_spec,
    translated,
    uuid,
)
from webhook.facts import ClusterFacts

A10 = a_gpu(0, 23028)
A100 = a_gpu(1, 81920, name="NVIDIA A100-SXM4-80GB", numa_node=1)
MIXED = a_slice(A10, A100)
MIXED_FACTS = ClusterFacts(
    gpus_by_memory_mib={23028: 1, 81920: 1}, gpus_by_shares={10: 2}, fill_levels=True
)
PROFILES = pytest.mark.parametrize("profile", ["1.36", "1.37"])


def _spec(
    facts: ClusterFacts = MIXED_FACTS,
    notes: dict[str, str] | None = None,
    config: DeviceConfig | None = None,
    **amounts: Any,
) -> JsonObject:
    return only_spec(
        translated(a_pod(a_container(**amounts), annotations=notes), facts, None, config)
    )


def _name(number: int) -> str:
    return device_name(uuid(number))


def _names(spec: JsonObject, *slices: JsonObject, **options: Any) -> list[str]:
    return [name for name, _ in given(allocate(spec, *slices, **options))]


def _none(spec: JsonObject, *slices: JsonObject, **options: Any) -> bool:
    return allocate(spec, *slices, **options).outcome is Outcome.NONE


@PROFILES
def test_half_of_each_gpu_is_half_of_that_gpu(profile: str) -> None:
    """Of cards with 23028 and 81920 MiB, 50 % of two is 11514 and 40960 MiB."""
    result = allocate(_spec(gpu=2, percent=50), MIXED, profile=profile)
    assert given(result) == [(_name(0), 11514), (_name(1), 40960)]


def test_five_halves_are_too_many_for_two_cards() -> None:
    """Two pods with half a card each fill one; the fifth waits."""
    spec = _spec(gpu=1, percent=50)
    taken: list[JsonObject] = []
    for number in range(4):
        taken.append(held(spec, allocate(spec, MIXED, taken=taken), f"c{number}"))
    assert _none(spec, MIXED, taken=taken)


def test_a_percentage_needs_a_gpu_of_a_known_size() -> None:
    """A card that came later has a total that the claim does not name."""
    spec = _spec(ClusterFacts(gpus_by_memory_mib={23028: 1}), gpu=1, percent=50)
    assert _none(spec, a_slice(A100))


@PROFILES
@pytest.mark.parametrize("distinct", [True, False])
def test_two_gpus_are_two(profile: str, distinct: bool) -> None:  # noqa: FBT001
    """A count never takes one card twice, whichever form the cluster needs."""
    facts = ClusterFacts(counts_are_distinct=distinct)
    spec = _spec(facts, gpu=2, gpumem=1000)
    assert _names(spec, MIXED, profile=profile) == [_name(0), _name(1)]
    assert _none(spec, a_slice(A10), profile=profile)


def test_memory_without_cores_can_be_joined() -> None:
    """Ten such pods share a card, unlike where cores default to all of them."""
    spec = _spec(gpu=1, gpumem=2000)
    taken: list[JsonObject] = []
    for number in range(10):
        result = allocate(spec, a_slice(A10), taken=taken)
        assert given(result) == [(_name(0), 2000)]
        taken.append(held(spec, result, f"c{number}"))
    assert _none(spec, a_slice(A10), taken=taken)


def test_cores_are_booked() -> None:
    """Four times 30 percent is more than there is."""
    spec = _spec(gpu=1, gpumem=1000, cores=30)
    taken: list[JsonObject] = []
    for number in range(3):
        taken.append(held(spec, allocate(spec, a_slice(A10), taken=taken), f"c{number}"))
    assert _none(spec, a_slice(A10), taken=taken)


@pytest.mark.parametrize("amounts", [{"gpu": 1}, {"gpu": 1, "percent": 100}])
def test_a_whole_gpu_is_alone(amounts: dict[str, Any]) -> None:
    """All memory and cores of a shared card, and only of an empty one."""
    whole, part = _spec(**amounts), _spec(gpu=1, gpumem=1)
    result = allocate(whole, a_slice(A10))
    assert given(result) == [(_name(0), 23028)]
    assert _none(part, a_slice(A10), taken=[held(whole, result)])
    assert _none(whole, a_slice(A10), taken=[held(part, allocate(part, a_slice(A10)))])


def test_a_whole_gpu_may_be_one_that_nobody_shares() -> None:
    """Also one that does not tell its memory; a share may not be."""
    exclusive = a_slice(an_exclusive_gpu(0), an_exclusive_gpu(1, None))
    assert _names(_spec(gpu=2), exclusive) == [_name(0), _name(1)]
    assert _none(_spec(gpu=1, gpumem=1000), exclusive)
    assert _none(_spec(gpu=1, percent=50), exclusive)


def test_listed_uuids_are_chosen_among_listed_types() -> None:
    """Both annotations hold; an empty exclusion and an empty member mean nothing."""
    cards = [a_gpu(number, 81559, name="NVIDIA H100 80GB HBM3") for number in range(8)]
    notes = {
        "nvidia.com/use-gpuuuid": f"{uuid(3)}, {uuid(5)},",
        "nvidia.com/nouse-gpuuuid": "",
        "nvidia.com/use-gputype": "a100,h100",
    }
    spec = _spec(notes=notes, gpu=2, gpumem="1k")
    assert _names(spec, a_slice(*cards)) == [_name(3), _name(5)]
    assert _none(spec, a_slice(a_gpu(3), a_gpu(5)))


def test_a_type_is_a_part_of_the_model_in_either_case() -> None:
    """`A10` also takes an A100, as HAMi does; `a100` takes no A10."""
    assert _names(_spec(notes={"nvidia.com/use-gputype": "A10"}, gpu=2, gpumem=1), MIXED)
    only = {"nvidia.com/use-gputype": "a100"}
    assert _names(_spec(notes=only, gpu=1, gpumem=1), MIXED) == [_name(1)]
    but = {"nvidia.com/nouse-gputype": "A100,l4"}
    assert _names(_spec(notes=but, gpu=1, gpumem=1), MIXED) == [_name(0)]
    assert _none(_spec(notes=but, gpu=2, gpumem=1), MIXED)


def test_numa_bind_is_a_must() -> None:
    """Two cards of two NUMA nodes are no pair; the second and third are."""
    notes = {"nvidia.com/numa-bind": "true"}
    spec = _spec(notes=notes, gpu=2, gpumem=1000)
    assert _none(spec, MIXED)
    three = a_slice(A10, A100, a_gpu(2, numa_node=1))
    assert _names(spec, three) == [_name(1), _name(2)]


@pytest.mark.parametrize("distinct", [True, False])
def test_best_effort_is_a_wish(distinct: bool) -> None:  # noqa: FBT001
    """The pair of one NUMA node if there is one, else any pair."""
    facts = ClusterFacts(counts_are_distinct=distinct)
    notes = {"hami.io/numa-alignment": "best-effort"}
    spec = _spec(facts, notes, gpu=2, gpumem=1000)
    three = a_slice(A10, A100, a_gpu(2, numa_node=1))
    assert _names(spec, three) == [_name(1), _name(2)]
    assert _names(spec, MIXED) == [_name(0), _name(1)]


@pytest.mark.parametrize("distinct", [True, False])
def test_closeness_is_for_all_or_none(distinct: bool) -> None:  # noqa: FBT001
    """Three cards are of one root, else of one node, else any, whatever their sizes."""
    facts = ClusterFacts(gpus_by_memory_mib={20000: 1, 40000: 1}, counts_are_distinct=distinct)
    notes = {"hami.io/gpu-scheduler-policy": "topology-aware,numa"}
    spec = _spec(facts, notes, gpu=3, percent=50)

    def a_card(number: int, root: str | None, numa: int | None) -> Any:
        memory_mib = 20000 if number % 2 else 40000
        return a_gpu(number, memory_mib, pcie_root=root, numa_node=numa)

    lone = [a_card(0, "a", 0), a_card(1, "b", 1)]
    root = [a_card(number, "c", 2) for number in (5, 6, 7)]
    node = [a_card(number, str(number), 2) for number in (2, 3, 4)]
    unknown = [a_card(number, None, None) for number in (8, 9)]
    every = a_slice(*lone, *node, *root)
    assert sorted(_names(spec, every)) == [_name(5), _name(6), _name(7)]
    assert sorted(_names(spec, a_slice(*lone, *node))) == [_name(2), _name(3), _name(4)]
    assert len(_names(spec, a_slice(*lone, *unknown))) == 3
    assert _none(spec, a_slice(*lone))


def test_a_node_with_the_nearer_pair_is_liked_better() -> None:
    """The scheduler scores by the alternative that it can serve."""
    notes = {"hami.io/gpu-scheduler-policy": "topology-aware"}
    spec = _spec(notes=notes, gpu=2)
    near = a_slice(a_gpu(0, pcie_root="pci0000:00"), a_gpu(1, pcie_root="pci0000:00"))
    far = a_slice(a_gpu(2), a_gpu(3), node="node-2")
    assert allocate(spec, near).score > allocate(spec, far, node="node-2").score > 0


def test_binpack_and_spread_like_what_they_say() -> None:
    """The fuller or the emptier card is taken, and any where it does not fit or tell."""
    cards = (a_gpu(0), a_gpu(1), a_gpu(2))
    levels = a_slice(*cards, fill_levels={0: 1, 1: 3, 2: 0})
    pack = _spec(notes={"hami.io/gpu-scheduler-policy": "binpack"}, gpu=1, gpumem=1000)
    spread = _spec(notes={"hami.io/gpu-scheduler-policy": "spread"}, gpu=1, gpumem=1000)
    assert _names(pack, levels) == [_name(1)]
    assert _names(spread, levels) == [_name(2)]
    silent = a_slice(*cards)
    assert _names(pack, silent) == _names(spread, silent) == [_name(0)]
    large = _spec(gpu=1, gpumem=24000)
    taken = [held(large, allocate(large, a_slice(a_gpu(1))))]
    assert _names(pack, levels, taken=taken) == [_name(0)]


def test_mutex_keeps_others_out_without_taking_their_memory() -> None:
    """It starts on an empty card only and books what it asked, and nobody joins."""
    mutex = _spec(notes={"hami.io/gpu-scheduler-policy": "mutex"}, gpu=1, gpumem=1000)
    other = _spec(gpu=1, gpumem=1000)
    alone = allocate(mutex, a_slice(A10))
    assert given(alone) == [(_name(0), 1000)]
    assert _none(other, a_slice(A10), taken=[held(mutex, alone)])
    joined = [held(other, allocate(other, a_slice(A10)))]
    assert _none(mutex, a_slice(A10), taken=joined)
    assert _names(mutex, MIXED, taken=joined) == [_name(1)]


def test_mutex_knows_every_number_of_shares() -> None:
    """Nodes may split their cards differently."""
    facts = ClusterFacts(gpus_by_shares={4: 1, 10: 1})
    spec = _spec(facts, {"hami.io/gpu-scheduler-policy": "mutex"}, gpu=1, gpumem=1000)
    for shares in (4, 10):
        assert _names(spec, a_slice(A10, shares=shares)) == [_name(0)]
    assert _none(spec, a_slice(A10, shares=5))


def test_mig_takes_the_smallest_that_is_large_enough() -> None:
    """Whatever the order of the partitions; one that came later serves as well."""
    facts = ClusterFacts(mig_by_memory_mib={9856: 1, 20096: 1, 40448: 1})
    notes = {"nvidia.com/vgpu-mode": "mig"}
    spec = _spec(facts, notes, gpu=1, gpumem="10k")
    node = a_slice(a_gpu(9), a_mig_gpu(0, 40448, 20096, 9856))
    (first,) = _names(spec, node)
    assert first == "mig-00000000-0000-4000-8000-000000000001"
    assert _names(spec, a_slice(a_mig_gpu(0, 11000)))
    assert _none(spec, a_slice(a_mig_gpu(0, 9856), a_gpu(1)))


def test_mig_and_shares_are_never_mixed_in_one_container() -> None:
    """Both are good, but a container cannot use them together."""
    facts = ClusterFacts(mig_by_memory_mib={9856: 2})
    notes = {"nvidia.com/vgpu-mode": "hami-core,mig"}
    spec = _spec(facts, notes, gpu=2, gpumem=5000)
    assert _none(spec, a_slice(a_gpu(0), a_mig_gpu(1, 9856)))
    assert _names(spec, a_slice(a_gpu(0), a_gpu(1))) == [_name(0), _name(1)]
    assert len(_names(spec, a_slice(a_gpu(0), a_mig_gpu(1, 9856, 9856)))) == 2


def test_a_uuid_of_a_gpu_chooses_its_mig_devices() -> None:
    """In HAMi a MIG device is known by its card."""
    notes = {"nvidia.com/vgpu-mode": "mig", "nvidia.com/use-gpuuuid": uuid(2)}
    spec = _spec(notes=notes, gpu=1, gpumem=5000)
    node = a_slice(a_mig_gpu(1, 9856), a_mig_gpu(2, 9856))
    assert _names(spec, node) == ["mig-00000000-0000-4000-8000-000002000000"]


def test_a_search_that_fails_ends_soon() -> None:
    """Seven free cards are not tried in all orders for a pod that wants eight halves."""
    facts = ClusterFacts(gpus_by_memory_mib={24564: 8, 81920: 8})
    node = a_slice(*(a_gpu(number) for number in range(7)))
    wanting_eight = allocate(_spec(facts, gpu=8, percent=50), node)
    assert wanting_eight.outcome is Outcome.NONE
    assert wanting_eight.calls < 1000
    wanting_four = allocate(
        _spec(facts, {"nvidia.com/use-gpuuuid": ",".join(map(uuid, range(3)))}, gpu=4, percent=50),
        node,
    )
    assert wanting_four.outcome is Outcome.NONE
    assert wanting_four.calls < 1000


@PROFILES
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_gets_its_devices(case: ClaimCase, profile: str) -> None:
    """These are the cases that real schedulers are asked, too."""
    result = allocate(case.spec, case.node, profile=profile)
    if case.devices is None:
        assert result.outcome is Outcome.NONE
        return
    by_name = {
        device["name"]: device["attributes"]["parentUUID"]["string"]
        for device in case.node["spec"]["devices"]
    }
    assert [by_name[name] for name, _ in given(result)] == [uuid(each) for each in case.devices]
