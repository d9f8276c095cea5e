"""G15 and G16: how long kubelet waits for a claim, one at a time and eight at once.

Included are the claim's GET over TLS, the record that is on disk before the answer, the region's
tmpfs and the CDI spec. The state grows over a run and is empty again before the next.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.bench.claims import Claim
from tests.bench.figures import Goal, median, percentile, show
from tests.bench.kubelet import Kubelet
from tests.bench.node import Agent, Node, prepared_cluster

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

_CLAIMS = 300
_RUNS = 5
_TOGETHER = 8
_PAUSE_S = 0.003


def test_prepare(node: Node, kubelet_roots: Path) -> None:
    """Print latencies and rates of prepare and unprepare."""
    claims = Supply()
    warm_up = claims.take(20, limited=True)
    limited = [claims.take(_CLAIMS, limited=True) for _ in range(_RUNS)]
    free = [claims.take(_CLAIMS, limited=False) for _ in range(_RUNS)]
    together = [claims.take(_CLAIMS, limited=True) for _ in range(_RUNS)]
    with prepared_cluster(node, claims.taken) as cluster:
        agent = Agent(node, kubelet_roots / "prepare", cluster)
        try:
            kubelet = Kubelet(agent.registry)
            for claim in warm_up:
                kubelet.prepare(claim)
                kubelet.unprepare(claim)
            _show_one_by_one(agent, kubelet, "", limited)
            _show_one_by_one(agent, kubelet, "unlimited_", free)
            _show_together(agent, kubelet, together)
            kubelet.close()
        finally:
            agent.process.stop()


class Supply:
    """Claims, each given once: one that was released cannot come back in the same version."""

    def __init__(self) -> None:
        self.taken: list[Claim] = []

    def take(self, count: int, *, limited: bool) -> list[Claim]:
        """Return *count* claims that nobody has had."""
        first = len(self.taken)
        self.taken += [Claim(number, limited=limited) for number in range(first, first + count)]
        return self.taken[first:]


def _show_one_by_one(
    agent: Agent, kubelet: Kubelet, kind: str, runs: Sequence[Sequence[Claim]]
) -> None:
    prepare = Series(agent, kubelet.prepare)
    unprepare = Series(agent, kubelet.unprepare)
    disk = Disk(agent.state)
    for claims in runs:
        disk.run()
        prepare.run(claims)
        unprepare.run(claims)
    goals = (Goal(goal=5, floor=7.9), Goal(goal=10, floor=15.3)) if not kind else (None, None)
    prepare.show(f"{kind}prepare", *goals)
    unprepare.show(f"{kind}unprepare")
    disk.show()


class Series:
    """Runs of one call over many claims."""

    def __init__(self, agent: Agent, call: Callable[[Claim], float]) -> None:
        self._agent = agent
        self._call = call
        self._p50_ms: list[float] = []
        self._p99_ms: list[float] = []
        self._cpu_ms: list[float] = []

    def run(self, claims: Sequence[Claim]) -> None:
        """Call for each of *claims*."""
        cpu_s = self._agent.process.cpu_s()
        took_ms = [self._call(claim) for claim in claims]
        self._cpu_ms.append((self._agent.process.cpu_s() - cpu_s) / len(claims) * 1000)
        self._p50_ms.append(percentile(took_ms, 50))
        self._p99_ms.append(percentile(took_ms, 99))

    def show(self, name: str, p50: Goal | None = None, p99: Goal | None = None) -> None:
        """Print the medians over all runs."""
        show("G15", f"{name}_p50_ms", median(self._p50_ms), p50, note=_spread(self._p50_ms))
        show("G15", f"{name}_p99_ms", median(self._p99_ms), p99, note=_spread(self._p99_ms))
        show("G15", f"{name}_cpu_ms", median(self._cpu_ms))


def _show_together(agent: Agent, kubelet: Kubelet, runs: Sequence[Sequence[Claim]]) -> None:
    rates, p99_ms, cpu_ms = [], [], []
    for claims in runs:
        cpu_s = agent.process.cpu_s()
        took_ms, took_s = kubelet.prepare_together(claims, _TOGETHER)
        cpu_ms.append((agent.process.cpu_s() - cpu_s) / len(claims) * 1000)
        rates.append(len(claims) / took_s)
        p99_ms.append(percentile(took_ms, 99))
        for claim in claims:
            kubelet.unprepare(claim)
    rate_goal = Goal(goal=350, floor=168, more_is_better=True)
    show("G16", "claims_per_s", median(rates), rate_goal, note=_spread(rates))
    show("G16", "prepare_p99_ms", median(p99_ms), Goal(goal=50, floor=77), note=_spread(p99_ms))
    show("G16", "prepare_cpu_ms", median(cpu_ms))


class Disk:
    """What the disk alone takes for what each prepare must have written, measured in between.

    With pauses as between prepares: many disks answer faster when they are asked without end.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / "measured"
        self._p50_ms: list[float] = []
        self._p99_ms: list[float] = []

    def run(self) -> None:
        """Append as often as there are claims in a run, each time durably."""
        took_ms = []
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for _ in range(_CLAIMS):
                os.write(handle, b"x" * 800)
                began = time.perf_counter()
                os.fdatasync(handle)
                took_ms.append((time.perf_counter() - began) * 1000)
                time.sleep(_PAUSE_S)
        finally:
            os.close(handle)
            self._path.unlink()
        self._p50_ms.append(percentile(took_ms, 50))
        self._p99_ms.append(percentile(took_ms, 99))

    def show(self) -> None:
        """Print the medians over all runs."""
        p50, p99 = self._p50_ms, self._p99_ms
        show("G15", "disk_fdatasync_p50_ms", median(p50), note=_spread(p50))
        show("G15", "disk_fdatasync_p99_ms", median(p99), note=_spread(p99))


def _spread(values: Sequence[float]) -> str:
    return f"{len(values)} runs, {min(values):.3g} to {max(values):.3g}"
