"""G19: claims per second that the real scheduler allocates, of shares and of whole GPUs.

Claims and pods are there before the scheduler starts, and the time runs from its first binding to
its last; its own limit of requests is lifted, except where the name says otherwise. API server,
etcd and scheduler share the CPUs, so the scheduler's own time is printed beside the rates, and
shapes take turns: A, B, C, A, B, C.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import pytest

from tests.bench.figures import Goal, median, show
from tests.cluster.bench.control_plane import UNLIMITED
from tests.cluster.bench.fleet import OURS, SLIM, WHOLE
from tests.cluster.bench.fleet_cluster import FleetCluster
from tests.cluster.bench.rounds import Round
from tests.cluster.up import say_on_stderr

pytestmark = [pytest.mark.cluster, pytest.mark.bench, pytest.mark.timeout(1800)]

_ROUNDS: Final = 3
_SHAPES: Final = (WHOLE, OURS, SLIM)
_RATIO: Final = Goal(goal=1.0, floor=0.65, more_is_better=True)


@pytest.mark.parametrize(("nodes", "pods"), [(200, 300), (1000, 200)])
def test_claims_per_second(fleet: FleetCluster, nodes: int, pods: int) -> None:
    """Print the rates of three shapes of slices, and those of ours by that of whole GPUs."""
    fleet.grow(nodes)
    rounds = defaultdict[str, list[Round]](list)
    for number in range(_ROUNDS):
        for shape in _SHAPES:
            fleet.publish(shape)
            played = fleet.play(shape, pods)
            rounds[shape.name].append(played)
            text = f"{played.per_s:.0f} claims per second, {played.cpu_ms:.0f} ms of CPU each"
            say_on_stderr(f"{nodes} nodes, round {number + 1}, {shape.name}: {text}")
    for shape in _SHAPES:
        played_of = rounds[shape.name]
        _show(nodes, f"{shape.name}_claims_per_s", [each.per_s for each in played_of])
        _show(nodes, f"{shape.name}_scheduler_cpu_ms", [each.cpu_ms for each in played_of])
    for shape in (OURS, SLIM):
        pairs = list(zip(rounds[shape.name], rounds[WHOLE.name], strict=True))
        by_rate = [ours.per_s / whole.per_s for ours, whole in pairs]
        by_cpu = [whole.cpu_ms / ours.cpu_ms for ours, whole in pairs]
        _show(nodes, f"{shape.name}_by_whole", by_rate, _RATIO)
        _show(nodes, f"{shape.name}_by_whole_in_cpu", by_cpu)


@pytest.mark.parametrize(
    ("nodes", "pods", "flags", "limits"),
    [(1000, 200, UNLIMITED, "no_limits"), (200, 150, (), "default_limits")],
)
def test_pods_per_second(
    fleet: FleetCluster, nodes: int, pods: int, flags: Sequence[str], limits: str
) -> None:
    """Print the rate with claims from a template, which a controller makes meanwhile."""
    fleet.grow(nodes)
    fleet.publish(OURS)
    played = fleet.play_templates(OURS, pods, flags)
    note = f"{pods} pods"
    if not flags:
        note += "; 50 requests per second of the scheduler, 20 of each controller"
    show("G19", f"{nodes}_nodes_share_pods_per_s_{limits}", played.per_s, note=note)


def _show(nodes: int, name: str, values: Sequence[float], goal: Goal | None = None) -> None:
    spread = f"{len(values)} rounds, {min(values):.3g} to {max(values):.3g}"
    show("G19", f"{nodes}_nodes_{name}", median(values), goal, note=spread)
