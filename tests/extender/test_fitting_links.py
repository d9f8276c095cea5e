"""GPUs that are linked well."""

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from extender.fitting import topology
from tests.extender.nodes import (
    NoMore,
    fit,
    gpus,
    limited,
    pod,
    uuids,
)

POLICY = "hami.io/gpu-scheduler-policy"
NUMA_BIND = {"nvidia.com/numa-bind": "true"}


def test_links_across_numa_runs_are_not_mixed() -> None:
    """A pod bound to a NUMA node gets the best pair of a node that has enough."""
    on = gpus(4)
    on.annotations = {"hami.io/node-nvidia-score": '[{"uuid":"G0","score":{"G3":900}}]'}
    raw = pod(limited(gpu=2, mem=1), annotations={POLICY: "topology-aware", **NUMA_BIND})
    assert uuids(fit(on, raw)) == "G3 G2"
    on.devices["NVIDIA"][0].used_slots = 10
    assert uuids(fit(on, raw)) == "G3 G2"
    on.devices["NVIDIA"][3].used_slots = 10
    on.devices["NVIDIA"][0].used_slots = 0
    assert uuids(fit(on, raw)) == "G1 G0"


def test_a_quota_does_not_keep_the_best_pair_from_being_seen() -> None:
    """It is for as many GPUs as are asked for, however many are looked at."""
    on = gpus(4)
    on.annotations = {"hami.io/node-nvidia-score": '[{"uuid":"G1","score":{"G0":900}}]'}
    raw = pod(limited(gpu=2, mem=100), annotations={POLICY: "topology-aware"})
    assert uuids(fit(on, raw, room=NoMore(200))) == "G1 G0"
    refusal = "1/4 AllocatedCardsInsufficientRequest, 3/4 ResourceQuotaNotFit"
    assert uuids(fit(on, raw, room=NoMore(199))) == refusal


def test_a_quota_holds_for_what_is_chosen() -> None:
    """Parts of unequal GPUs are of unequal size."""
    on = gpus(3)
    on.devices["NVIDIA"][0].device = replace(on.devices["NVIDIA"][0].device, memory_mib=50000)
    on.devices["NVIDIA"][1].device = replace(on.devices["NVIDIA"][1].device, memory_mib=50000)
    on.annotations = {"hami.io/node-nvidia-score": '[{"uuid":"G1","score":{"G0":900}}]'}
    raw = pod(limited(gpu=2, percent=100), annotations={POLICY: "topology-aware"})
    assert uuids(fit(on, raw, room=NoMore(100000))) == "G1 G0"
    refusal = "2/3 ResourceQuotaNotFit, 3/3 AllocatedCardsInsufficientRequest"
    assert uuids(fit(on, raw, room=NoMore(95000))) == refusal


def test_broken_scores_of_pairs_are_no_links() -> None:
    """The first found are taken."""
    on = gpus(4)
    on.annotations = {"hami.io/node-nvidia-score": '[{"uuid":7}'}
    raw = pod(limited(gpu=2, mem=1), annotations={POLICY: "topology-aware"})
    assert uuids(fit(on, raw)) == "G3 G2"


def test_pairs_that_score_most_are_chosen() -> None:
    """The first of equal ones; candidates beyond reason are left out."""
    names = [f"G{each}" for each in range(6)]
    scores = {"G1": {"G4": 5, "G5": 5}, "G4": {"G5": 1}}
    assert topology.best_linked(names, 2, scores) == (1, 4)
    assert topology.best_linked(names, 3, scores) == (1, 4, 5)
    assert topology.best_linked(names, 3, {}) == (0, 1, 2)
    many = [f"G{each}" for each in range(60)]
    assert topology.best_linked(many, 8, {}) == tuple(range(8))
    assert topology.best_linked(many, 20, {}) == tuple(range(20))
    assert topology.least_linked(names, scores) == 0
    assert topology.least_linked(names, {name: {"G0": -1} for name in names[2:]}) == 2


@given(st.lists(st.lists(st.integers(-3, 9), min_size=7, max_size=7), min_size=7, max_size=7))
def test_the_choice_is_that_of_trying_all(rows: list[list[int]]) -> None:
    """In the order of HAMi, of which the first best wins."""
    names = [f"G{each}" for each in range(7)]
    scores = {one: dict(zip(names, row, strict=True)) for one, row in zip(names, rows, strict=True)}
    for count in (2, 3, 5):
        of_all = combinations(range(7), count)
        best = max(of_all, key=lambda chosen: sum(rows[a][b] for a, b in combinations(chosen, 2)))
        assert topology.best_linked(names, count, scores) == best
