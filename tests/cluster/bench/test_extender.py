"""G6 to G9: pods per second that the real scheduler and the extender bind by HAMi's annotations.

The pods are there before the scheduler starts, and the time runs from the extender's first request
to its last binding; the scheduler's own limit of requests is lifted. Each pod asks for a tenth of
one of eight GPUs. Nodes are objects alone; with HAMi's lock a process that watches does for all of
them what device plugins do, at once. All of them share the CPUs with API server and etcd, so the
time of each is printed beside the rates, and pods per second of CPU: what one CPU, used by nobody
else, would do.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from tests.bench.figures import Goal, median, show
from tests.cluster.bench.extender_rounds import (
    EXTENDER,
    ExtenderRound,
    extender_fleet,
)
from tests.cluster.bench.fleet_cluster import FleetCluster
from tests.cluster.up import say_on_stderr

pytestmark = [pytest.mark.cluster, pytest.mark.bench, pytest.mark.timeout(1200)]

_ROUNDS: Final = 5
_PODS: Final = 200
_POLICIES: Final = ("binpack", "spread")
_RATE_LOCKED: Final = Goal(goal=60, floor=40, more_is_better=True)
_RATE: Final = Goal(goal=120, floor=80, more_is_better=True)
_FAILED: Final = Goal(goal=0, floor=0)


def test_failed_bindings(fleet: FleetCluster) -> None:
    """Print how many bindings fail when pods crowd on few nodes and each node has a lock."""
    with extender_fleet(fleet, 200, locks=True) as extenders:
        rounds = [extenders.play(80, "binpack") for _ in range(_ROUNDS)]
    for number, played in enumerate(rounds, 1):
        say_on_stderr(f"round {number}: {_told(played)}")
    worst = max(each.failed for each in rounds)
    note = f"most of {_ROUNDS} rounds; on {median([each.nodes for each in rounds])} nodes"
    show("G8", "200_nodes_80_pods_failed_bindings", worst, _FAILED, note=note)
    _show("G8", "200_nodes_80_pods_per_s", [each.per_s for each in rounds])


@pytest.mark.parametrize("locks", [True, False], ids=["lock", "no_lock"])
def test_pods_per_second(fleet: FleetCluster, *, locks: bool) -> None:
    """Print rates, requests, CPU of each program and memory, by both policies for nodes."""
    group, goal = ("G6", _RATE_LOCKED) if locks else ("G7", _RATE)
    name = "lock" if locks else "no_lock"
    rounds: dict[str, list[ExtenderRound]] = {policy: [] for policy in _POLICIES}
    with extender_fleet(fleet, 1000, locks=locks) as extenders:
        rss_mb = extenders.rss_mb
        for number in range(_ROUNDS):
            for policy in _POLICIES:
                played = extenders.play(_PODS, policy)
                rounds[policy].append(played)
                say_on_stderr(f"{name}, {policy}, round {number + 1}: {_told(played)}")
        after_mb = extenders.rss_mb
    for policy, played_of in rounds.items():
        prefix = f"1000_nodes_{name}_{policy}"
        _show(group, f"{prefix}_pods_per_s", [each.per_s for each in played_of], goal)
        _show(group, f"{prefix}_pods_per_cpu_s", [each.per_cpu_s for each in played_of])
        for program in played_of[0].cpu_s:
            _show(group, f"{prefix}_{program}_cpu_ms", [each.cpu_ms(program) for each in played_of])
        failed = sum(each.failed for each in played_of)
        show("G8", f"{prefix}_failed_bindings", failed, note=f"{_ROUNDS} rounds of {_PODS} pods")
    everyone = [each for played_of in rounds.values() for each in played_of]
    _show_requests(name, everyone, locks=locks)
    note = f"{rss_mb:.1f} before, {len(everyone)} rounds of {_PODS} pods"
    show(group, f"1000_nodes_{name}_{EXTENDER}_rss_mb", after_mb, note=note)


def test_default_limits(fleet: FleetCluster) -> None:
    """Print the rate with the scheduler's own limits, 50 requests per second."""
    with extender_fleet(fleet, 1000, locks=False, limits=True) as extenders:
        rounds = [extenders.play(_PODS, "binpack") for _ in range(_ROUNDS)]
    rates = [each.per_s for each in rounds]
    _show("G7", "1000_nodes_no_lock_binpack_pods_per_s_default_limits", rates)


def _show_requests(name: str, rounds: Sequence[ExtenderRound], *, locks: bool) -> None:
    goal = Goal(goal=3, floor=4) if locks else Goal(goal=2, floor=4)
    total = sum((each.requests for each in rounds), Counter[str]())
    pods = sum(each.pods for each in rounds)
    kinds = ", ".join(f"{count} {kind}" for kind, count in total.most_common())
    note = f"{pods} pods: {kinds}"
    show("G9", f"1000_nodes_{name}_requests_per_pod", total.total() / pods, goal, note=note)


def _told(played: ExtenderRound) -> str:
    cpu = ", ".join(f"{name} {played.cpu_ms(name):.1f}" for name in played.cpu_s)
    return (
        f"{played.per_s:.0f} pods per second on {played.nodes} nodes, {played.failed} failed, "
        f"{played.requests_per_pod:.2f} requests, ms of CPU each: {cpu}"
    )


def _show(group: str, name: str, values: Sequence[float], goal: Goal | None = None) -> None:
    spread = f"{len(values)} rounds, {min(values):.3g} to {max(values):.3g}"
    show(group, name, median(values), goal, note=spread)
