"""Tests of who gets room in a namespace with GPU quota."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from gpu.refusal import Refusal
from hami.quota import Cost
from tests.webhook.quotaworld import (
    CORES,
    FACTS,
    GPU,
    MEMORY,
    NAMESPACE,
    Replica,
    World,
    claim,
    claims_for,
    pod,
    quota,
    review,
)
from webhook.facts import ClusterFacts
from webhook.quotacheck import Figure
from webhook.quotaverdict import PASSING

Value = TypeVar("Value")

TWO_OF_2048 = {GPU: 2, MEMORY: 2048}


def run(work: Coroutine[Any, Any, Value]) -> Value:
    """Run in a loop of its own."""
    return asyncio.run(work)


def alone(hard: dict[str, Any], *, dra: bool = True) -> Replica:
    """Return the only replica of a namespace with one quota."""
    return World(quotas=(quota(hard),)).replica(dra=dra)


def codes(refusals: tuple[Refusal, ...]) -> list[str]:
    """Return the codes."""
    return [refusal.code for refusal in refusals]


both_modes = pytest.mark.parametrize("dra", [True, False])


@both_modes
def test_a_copy_finds_no_room(dra: bool) -> None:  # noqa: FBT001
    """Two GPUs of 2048 MiB fill 4096; the sentence says so, before and after it is seen."""
    one = alone({"limits.nvidia.com/gpumem": "4096"}, dra=dra)
    assert run(one.create_pod(pod(TWO_OF_2048))) == ()
    (unseen,) = run(one.create_pod(pod(TWO_OF_2048)))
    one.catch_up()
    (seen,) = run(one.create_pod(pod(TWO_OF_2048)))
    sentence = "quota gpu-quota: limits.nvidia.com/gpumem used 4096, asked 4096, limit 4096"
    assert unseen.limit == seen.limit == sentence
    assert seen.code == "QuotaExceeded"
    assert "4096 of the used are of requests under way" in unseen.remedy
    assert "under way" not in seen.remedy


@both_modes
def test_values_of_each_gpu_are_multiplied(dra: bool) -> None:  # noqa: FBT001
    """Two GPUs with 20 cores each use 40 of 50, and a second pod exceeds both bounds."""
    hard = {"limits.nvidia.com/gpumem": "4096", "limits.nvidia.com/gpucores": "50"}
    one = alone(hard, dra=dra)
    asked = pod({GPU: 2, MEMORY: 2048, CORES: 20})
    assert run(one.create_pod(asked)) == ()
    one.catch_up()
    assert one.books.used(NAMESPACE).amounts == {GPU: 2, MEMORY: 4096, CORES: 40}
    assert codes(run(one.create_pod(asked))) == ["QuotaExceeded", "QuotaExceeded"]


@both_modes
def test_zero_forbids_what_is_asked_and_nothing_else(dra: bool) -> None:  # noqa: FBT001
    """No cores are asked by a pod that names none; memory is asked by every GPU pod."""
    cores = alone({"limits.nvidia.com/gpucores": "0"}, dra=dra)
    assert run(cores.create_pod(pod(TWO_OF_2048))) == ()
    assert codes(run(cores.create_pod(pod({GPU: 1, MEMORY: 1, CORES: 1})))) == ["QuotaExceeded"]
    memory = alone({"limits.nvidia.com/gpumem": "0"}, dra=dra)
    assert codes(run(memory.create_pod(pod({GPU: 1, MEMORY: 1})))) == ["QuotaExceeded"]
    assert codes(run(memory.create_pod(pod({GPU: 1})))) == ["QuotaExceeded"]


def test_zero_forbids_also_a_size_that_nobody_knows() -> None:
    """On HAMi's path with no GPU known, a percentage is refused by 0 and by nothing else."""
    for hard, expected in (("0", ["QuotaExceeded"]), ("1", [])):
        one = alone({"limits.nvidia.com/gpumem": hard}, dra=False)
        one.world.facts = ClusterFacts()
        assert codes(run(one.create_pod(pod({GPU: 1, f"{MEMORY}-percentage": 50})))) == expected


@pytest.mark.parametrize("prefix", ["limits", "requests"])
def test_the_number_of_gpus_is_bounded_by_either_key(prefix: str) -> None:
    """Both prefixes mean the same."""
    one = alone({f"{prefix}.nvidia.com/gpu": "3"})
    assert run(one.create_pod(pod(TWO_OF_2048))) == ()
    assert codes(run(one.create_pod(pod(TWO_OF_2048)))) == ["QuotaExceeded"]


def test_all_quotas_hold() -> None:
    """The smaller of two bounds refuses, and is named."""
    two = tuple(quota({"limits.nvidia.com/gpu": str(limit)}, name=f"q{limit}") for limit in (9, 1))
    (refusal,) = run(World(quotas=two).replica().create_pod(pod(TWO_OF_2048)))
    assert refusal.limit == "quota q1: limits.nvidia.com/gpu used 0, asked 2, limit 1"


def test_an_unreadable_bound_forbids_what_it_is_about() -> None:
    """The reason is the text; pods that ask something else are admitted."""
    one = alone({"limits.nvidia.com/gpucores": "many"})
    assert run(one.create_pod(pod(TWO_OF_2048))) == ()
    (refusal,) = run(one.create_pod(pod({GPU: 1, MEMORY: 1, CORES: 1})))
    assert refusal.code == "QuotaUnreadable"
    assert "many" in refusal.limit


@both_modes
def test_init_containers_cost_in_both_modes(dra: bool) -> None:  # noqa: FBT001
    """GPUs of init containers count: by their peak on HAMi's path, all of them in claims."""
    asked = pod({GPU: 1, MEMORY: 500})
    asked["spec"]["initContainers"] = [
        {"name": f"i{n}", "resources": {"limits": {GPU: "1", MEMORY: str(mib)}}}
        for n, mib in enumerate((800, 800))
    ]
    one = alone({"limits.nvidia.com/gpumem": "1000"}, dra=dra)
    (refusal,) = run(one.create_pod(asked)) or (None,)
    if dra:
        assert refusal is not None
        assert "asked 1300, limit 1000" in refusal.limit
    else:
        assert refusal is None
    too_much = pod()
    too_much["spec"]["initContainers"] = [
        {"name": "i", "resources": {"limits": {GPU: "1", MEMORY: "2000"}}}
    ]
    one.catch_up()
    assert codes(run(one.create_pod(too_much))) == ["QuotaExceeded"]


def test_a_pod_shrinks_when_its_init_containers_have_ended() -> None:
    """With 20000 used the same pod finds no room, with 10000 it does."""
    one = alone({"limits.nvidia.com/gpumem": "30000"}, dra=False)
    asked = pod({GPU: 1, MEMORY: 10000})
    asked["spec"]["initContainers"] = [
        {"name": "i", "resources": {"limits": {GPU: "1", MEMORY: "20000"}}}
    ]
    assert run(one.create_pod(asked)) == ()
    one.catch_up()
    assert codes(run(one.create_pod(asked))) == ["QuotaExceeded"]
    ((uid, running),) = one.world.pods.items()
    ended = {"name": "i", "state": {"terminated": {"exitCode": 0}}}
    one.world.pods[uid] = {**running, "status": {"initContainerStatuses": [ended]}}
    one.catch_up()
    assert run(one.create_pod(asked)) == ()


def test_a_percentage_counts_its_largest_alternative_until_allocated() -> None:
    """Half of the larger kind of GPU counts, then what the scheduler chose."""
    one = alone({"limits.nvidia.com/gpumem": "30000"})
    half = pod({GPU: 1, f"{MEMORY}-percentage": 50})
    assert run(one.create_pod(half)) == ()
    one.catch_up()
    assert one.books.used(NAMESPACE).amounts[MEMORY] == 20000
    (made,) = claims_for(next(iter(one.world.pods.values())))
    assert run(one.create_claim(made)) == ()
    one.catch_up()
    assert one.books.used(NAMESPACE).amounts[MEMORY] == 20000
    taken = {"memory": "5000Mi", "cores": "0"}
    result = {"request": "gpu", "driver": "gpuslice.io", "consumedCapacity": taken}
    uid = made["metadata"]["uid"]
    allocation = {"allocation": {"devices": {"results": [result]}}}
    one.world.claims[uid] = {**made, "status": allocation}
    one.catch_up()
    assert one.books.used(NAMESPACE).amounts[MEMORY] == 5000


def test_a_claim_takes_the_place_of_the_part_of_its_pod() -> None:
    """In a full namespace the claims of admitted pods find room, those of others do not."""
    one = alone({"limits.nvidia.com/gpu": "2"})
    for _ in range(2):
        assert run(one.create_pod(pod({GPU: 1, MEMORY: 100}))) == ()
    one.catch_up()
    assert codes(run(one.create_claim(claim()))) == ["QuotaExceeded"]
    for each in one.world.pods.values():
        (made,) = claims_for(each)
        assert run(one.create_claim(made)) == ()
    assert codes(run(one.create_claim(claim()))) == ["QuotaExceeded"]
    one.catch_up()
    assert one.books.used(NAMESPACE).amounts[GPU] == 2


def test_a_second_claim_for_the_same_part_needs_room_of_its_own() -> None:
    """A claim that pretends to be a pod's takes that pod's room, not room that is not there."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    assert run(one.create_pod(pod({GPU: 1, MEMORY: 100}))) == ()
    one.catch_up()
    (false,), (true,) = (claims_for(next(iter(one.world.pods.values()))) for _ in range(2))
    assert run(one.create_claim(false)) == ()
    one.catch_up()
    assert codes(run(one.create_claim(true))) == ["QuotaExceeded"]


def test_a_claim_of_a_pod_that_is_not_seen_waits_for_it() -> None:
    """The pod's reservation and its claim never count both."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    assert run(one.create_pod(pod({GPU: 1, MEMORY: 100}))) == ()
    (made,) = claims_for(next(iter(one.world.pods.values())))

    async def seen_a_little_later(seconds: float) -> None:
        one.world.now_s += seconds
        one.catch_up()

    one.books._pause = seen_a_little_later
    assert run(one.create_claim(made)) == ()


def test_a_claim_counts_until_it_is_deleted() -> None:
    """The end of its pod gives nothing back, its own end does at once."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    asked = pod({GPU: 1, MEMORY: 100})
    assert run(one.create_pod(asked)) == ()
    one.catch_up()
    ((uid, running),) = one.world.pods.items()
    (made,) = claims_for(running)
    assert run(one.create_claim(made)) == ()
    one.world.pods[uid] = {**running, "status": {"phase": "Succeeded"}}
    one.catch_up()
    assert codes(run(one.create_pod(asked))) == ["QuotaExceeded"]
    one.world.claims.clear()
    one.catch_up()
    assert run(one.create_pod(asked)) == ()


def test_claims_of_unknown_size_are_refused_under_a_quota() -> None:
    """`All` needs a number, a whole GPU a size; without a quota both pass."""
    one = alone({"limits.nvidia.com/gpumem": "9999999"})
    every = claim(allocationMode="All")
    assert codes(run(one.create_claim(every))) == ["QuotaNeedsSize"]
    whole = claim(deviceClassName="gpu.gpuslice.io", capacity={})
    one.world.facts = ClusterFacts()
    assert codes(run(one.create_claim(whole))) == ["QuotaNeedsSize"]
    one.world.facts = FACTS
    assert run(one.create_claim(whole)) == ()
    one.world.quotas = ()
    assert run(one.create_claim(every)) == ()
    one.world.quotas = (quota({"limits.nvidia.com/gpumem": "9999999"}),)
    one.catch_up()
    assert codes(run(one.create_claim(claim()))) == ["QuotaUsageUnknown"]


def test_a_dry_run_takes_no_room() -> None:
    """It is told the truth and leaves nothing behind."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    asked = pod({GPU: 1, MEMORY: 100})
    for _ in range(3):
        assert run(one.ask_pod(asked, dry_run=True))[0] == ()
        assert run(one.ask_claim(claim(), dry_run=True)) == ()
    assert run(one.create_pod(asked)) == ()
    assert codes(run(one.ask_pod(asked, dry_run=True))[0]) == ["QuotaExceeded"]


def test_the_same_request_asked_again_takes_room_once() -> None:
    """The API server may ask twice, and so may another replica."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    asked = pod({GPU: 1, MEMORY: 100})
    question = review(asked)
    for _ in range(2):
        assert run(one.ask_pod(asked, question))[0] == ()


def test_requests_for_one_name_take_room_once() -> None:
    """Only one of them can succeed."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    asked = pod({GPU: 1, MEMORY: 100}, name="web-0")
    for _ in range(3):
        assert run(one.ask_pod(asked))[0] == ()
    assert codes(run(one.ask_pod(pod({GPU: 1, MEMORY: 100}, name="web-1")))[0]) == ["QuotaExceeded"]


def test_a_pod_that_is_asked_about_with_its_uid_is_found_by_it() -> None:
    """As it will be stored it counts the same, and what it says of its state is not believed."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    _, final = run(one.ask_pod(pod({GPU: 1, MEMORY: 100}), dry_run=True))
    final["status"] = {"phase": "Succeeded"}
    assert run(one.check.check_stored_pod(review(final))) == ()
    other = {**final, "metadata": {**final["metadata"], "uid": "u2", "name": "other"}}
    assert codes(run(one.check.check_stored_pod(review(other)))) == ["QuotaExceeded"]
    one.world.pods[final["metadata"]["uid"]] = {**final, "status": {}}
    one.catch_up()
    assert one.books.used(NAMESPACE).amounts[GPU] == 1
    assert run(one.ask_pod(pod({MEMORY: 1})))[0][0].limit.startswith("quota gpu-quota: ")


def test_what_vanished_gives_its_room_back_after_proof() -> None:
    """A request that failed later keeps its room until nothing can come of it any more."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    asked = pod({GPU: 1, MEMORY: 100})
    assert run(one.ask_pod(asked))[0] == ()
    one.world.now_s += 30
    assert codes(run(one.ask_pod(asked))[0]) == ["QuotaExceeded"]
    one.world.now_s += 10
    one.world.listable = False
    assert codes(run(one.ask_pod(asked))[0]) == ["QuotaExceeded"]
    one.world.listable = True
    assert run(one.ask_pod(asked))[0] == ()


def test_what_is_stored_and_not_seen_keeps_its_room() -> None:
    """A view that stands still gives nothing away."""
    one = alone({"limits.nvidia.com/gpu": "1"})
    asked = pod({GPU: 1, MEMORY: 100})
    assert run(one.create_pod(asked)) == ()
    one.world.now_s += 100
    assert codes(run(one.create_pod(asked))) == ["QuotaExceeded"]


def test_followers_ask_the_leader() -> None:
    """Two replicas give the last room once, whichever is asked."""
    world = World(quotas=(quota({"limits.nvidia.com/gpu": "1"}),))
    one, two = world.replica("one"), world.replica("two")
    asked = pod({GPU: 1, MEMORY: 100})
    assert run(two.create_pod(asked)) == ()
    assert codes(run(one.create_pod(asked))) == ["QuotaExceeded"]
    assert codes(run(two.create_pod(asked))) == ["QuotaExceeded"]
    assert codes(run(two.create_claim(claim()))) == ["QuotaExceeded"]


def test_without_a_leader_nothing_is_admitted() -> None:
    """Nobody leads, the leader is silent, or it has just changed: try again."""
    world = World(quotas=(quota({"limits.nvidia.com/gpu": "9"}),))
    two = world.replica("two")
    asked = pod({GPU: 1, MEMORY: 100})
    world.lead(None)
    assert codes(run(two.create_pod(asked))) == ["QuotaLeaderUnavailable"]
    world.lead("gone")
    assert codes(run(two.create_pod(asked))) == ["QuotaLeaderUnavailable"]
    three = world.replica("three")
    world.lead("three")
    three.leading_since = lambda: None  # type: ignore[method-assign]
    assert codes(run(two.create_pod(asked))) == ["QuotaLeaderUnavailable"]
    assert {"QuotaLeaderUnavailable"} <= PASSING


def test_namespaces_without_gpu_quota_need_no_leader() -> None:
    """Other quotas do not matter."""
    world = World(quotas=(quota({"pods": "3", "limits.cpu": "4"}),))
    world.lead(None)
    two = world.replica("two")
    assert run(two.create_pod(pod({GPU: 8, MEMORY: 1}))) == ()
    assert run(two.create_claim(claim())) == ()


def test_a_new_leader_waits_for_what_the_old_one_admitted() -> None:
    """It refuses until no request can be under way, and until it has seen what came of them."""
    world = World(quotas=(quota({"limits.nvidia.com/gpu": "1"}),))
    one, two = world.replica("one"), world.replica("two")
    asked = pod({GPU: 1, MEMORY: 100})
    refusals, late = run(one.ask_pod(asked))
    assert refusals == ()
    world.lead("two")
    assert codes(run(two.create_pod(asked))) == ["QuotaLeaderSettling"]
    world.now_s += 33
    world.pods[late["metadata"]["uid"]] = late
    world.now_s += 10
    assert codes(run(two.create_pod(asked))) == ["QuotaViewBehind"]
    two.catch_up()
    assert codes(run(two.create_pod(asked))) == ["QuotaExceeded"]
    world.pods.clear()
    two.catch_up()
    assert run(two.create_pod(asked)) == ()


def test_a_leader_that_comes_back_begins_anew() -> None:
    """What it reserved in an earlier term is forgotten once the wait is over."""
    world = World(quotas=(quota({"limits.nvidia.com/gpu": "1"}),))
    one = world.replica("one")
    asked = pod({GPU: 1, MEMORY: 100})
    assert run(one.ask_pod(asked))[0] == ()
    world.lead(None)
    world.lead("one")
    assert codes(run(one.create_pod(asked))) == ["QuotaLeaderSettling"]
    world.now_s += 40
    assert run(one.create_pod(asked)) == ()


def test_fifty_at_once_get_the_ten_places() -> None:
    """Through two replicas exactly ten pods and then their ten claims are admitted."""
    world = World(quotas=(quota({"limits.nvidia.com/gpumem": "1000"}),))
    replicas = [world.replica("one"), world.replica("two")]

    async def many() -> int:
        asked = [replicas[n % 2].create_pod(pod({GPU: 1, MEMORY: 100})) for n in range(50)]
        return sum(not refusals for refusals in await asyncio.gather(*asked))

    assert run(many()) == 10
    for each in replicas:
        each.catch_up()

    async def claims() -> int:
        made = [claims_for(each)[0] for each in world.pods.values()]
        made += [claim(memory="1Mi") for _ in range(20)]
        asked = [replicas[n % 2].create_claim(each) for n, each in enumerate(made)]
        return sum(not refusals for refusals in await asyncio.gather(*asked))

    assert run(claims()) == 10


def test_figures_tell_what_is_used() -> None:
    """Each bound has its used amount; a namespace without bounds has none."""
    one = alone({"limits.nvidia.com/gpu": "3", "limits.nvidia.com/gpucores": "x"})
    assert run(one.create_pod(pod({GPU: 2, MEMORY: 5}))) == ()
    one.catch_up()
    assert list(one.check.figures([NAMESPACE, "other"])) == [
        Figure(
            namespace=NAMESPACE,
            quota="gpu-quota",
            key="limits.nvidia.com/gpu",
            used=2,
            limit=3,
        ),
        Figure(
            namespace=NAMESPACE,
            quota="gpu-quota",
            key="limits.nvidia.com/gpucores",
            used=0,
            limit=None,
        ),
    ]


def test_a_pod_that_was_translated_before_counts_its_claims() -> None:
    """A copy of a stored pod asks by claims alone, and costs as much."""
    one = alone({"limits.nvidia.com/gpu": "3"})
    assert run(one.create_pod(pod(TWO_OF_2048))) == ()
    one.catch_up()
    ((_, first),) = one.world.pods.items()
    metadata = {key: value for key, value in first["metadata"].items() if key != "uid"}
    copied = {**first, "metadata": metadata | {"name": "copy"}}
    cost = one.prices.of_new_pod(copied, FACTS).whole
    assert cost == Cost(amounts={GPU: 2, MEMORY: 4096})
    assert codes(run(one.check.check_stored_pod(review(copied)))) == ["QuotaExceeded"]
