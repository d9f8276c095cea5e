"""From the death of a process that used a region until the region is empty again.

A container that kubelet starts again has to come later than that to find nothing of the one
before; how soon kubelet does is measured on the real cluster.
"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from gpu import names
from tests.bench.claims import Claim
from tests.bench.figures import Goal, percentile, show
from tests.bench.kubelet import Kubelet
from tests.bench.node import Agent, Node, prepared_cluster
from tests.region_user import RegionUser, is_empty, using

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

_RUNS: Final = 300
_OTHERS: Final = 29
_TIMEOUT_S: Final = 30.0
_SETTLED_S: Final = 1.0


@pytest.fixture
def regions(node: Node, kubelet_roots: Path) -> Iterator[list[Path]]:
    """Run an agent that has prepared claims, and return their regions."""
    claims = [Claim(number, limited=True) for number in range(1 + _OTHERS)]
    with prepared_cluster(node, claims) as cluster:
        agent = Agent(node, kubelet_roots / "reset", cluster)
        try:
            kubelet = Kubelet(agent.registry)
            for claim in claims:
                kubelet.prepare(claim)
            time.sleep(_SETTLED_S)
            root = agent.kubelet_root / "plugins" / names.DRIVER / "regions"
            yield [root / claim.uid / "region.cache" for claim in claims]
            for claim in claims:
                kubelet.unprepare(claim)
            kubelet.close()
        finally:
            agent.process.stop()


def reset_ms(region: Path, user: RegionUser) -> float:
    """Kill *user* and return the time until its region is empty."""
    assert not is_empty(region)
    began_s = time.perf_counter()
    user.signal()
    while not is_empty(region):
        if time.perf_counter() - began_s > _TIMEOUT_S:
            raise TimeoutError(region)
        # The only other CPU may be what the agent needs.
        os.sched_yield()
    return (time.perf_counter() - began_s) * 1000


@pytest.mark.parametrize("others", [0, _OTHERS])
def test_region_reset(regions: list[Path], others: int) -> None:
    """Print the time to the reset, alone and beside containers that use their own regions."""
    took_ms = []
    with ExitStack() as stack:
        for region in regions[1 : 1 + others]:
            stack.enter_context(using(region))
        for _ in range(_RUNS):
            with using(regions[0]) as user:
                took_ms.append(reset_ms(regions[0], user))
    kind = f"beside_{others}" if others else "alone"
    goals = {50: Goal(goal=2, floor=10), 99: Goal(goal=20, floor=100)}
    for percent, goal in goals.items():
        note = f"{_RUNS} processes killed"
        show("region_reset", f"{kind}_p{percent}_ms", percentile(took_ms, percent), goal, note=note)
    show("region_reset", f"{kind}_max_ms", max(took_ms))
