"""What it costs to publish how full GPUs are, while pods come and go as fast as they can.

Eight pods start, one on each GPU, and end again, so that every level changes with every one: no
node's slice changes more often. Each write goes to everybody who watches slices.
"""

import json
import time
from pathlib import Path
from typing import Final

import pytest

from tests.bench.claims import GPUS
from tests.bench.figures import Goal, show
from tests.bench.kubelet import Kubelet
from tests.bench.node import Node
from tests.bench.test_slices import WRITES, Scene, published, stored

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

_CHURN_S: Final = 95
_PAUSE_S: Final = 0.5
_HOUR_S: Final = 3600
_INTERVAL_S: Final = 30


def test_fill_level(node: Node, kubelet_roots: Path) -> None:
    """Print writes and bytes of the slice under churn, with the setting and without."""
    for flags, name in (((), "off"), (("--publish-fill-level",), "on")):
        root = kubelet_roots / name
        with published(node, root, *flags) as scene:
            pods, writes, cpu_ms = _churn(node, root, scene)
            size = sum(len(json.dumps(item, separators=(",", ":"))) for item in scene.slices())
        most = _CHURN_S // _INTERVAL_S + 1 if flags else 0
        note = f"{pods} pods in {_CHURN_S} s"
        show("G18", f"fill_level_{name}_writes", writes, Goal(goal=most, floor=most), note=note)
        show("G18", f"fill_level_{name}_slice_bytes", size, note=f"{GPUS} GPUs, JSON")
        show("G18", f"fill_level_{name}_cpu_ms_per_pod", cpu_ms / pods, note="prepare, unprepare")
        if flags:
            hourly = size * _HOUR_S // _INTERVAL_S
            show("G18", "fill_level_bytes_per_hour_at_most", hourly, note="to each who watches")


def _churn(node: Node, kubelet_root: Path, scene: Scene) -> tuple[int, int, float]:
    """Return how many pods came and went, how many writes that made, and the agent's CPU."""
    kubelet = Kubelet(kubelet_root / "plugins_registry")
    before, cpu_before_s = scene.requests(), scene.agent.cpu_s()
    end_s = time.monotonic() + _CHURN_S
    pods = 0
    while time.monotonic() < end_s:
        claims = [stored(node, scene.server, pods + number) for number in range(GPUS)]
        for claim in claims:
            kubelet.prepare(claim)
        time.sleep(_PAUSE_S)
        for claim in claims:
            kubelet.unprepare(claim)
        time.sleep(_PAUSE_S)
        pods += len(claims)
    spent = scene.requests() - before
    cpu_ms = (scene.agent.cpu_s() - cpu_before_s) * 1000
    kubelet.close()
    return pods, sum(spent[verb, "resourceslices"] for verb in WRITES), cpu_ms
