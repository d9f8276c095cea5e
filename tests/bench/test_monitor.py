"""G10: what the monitor costs a node with a hundred containers, in one process with its scrapes.

Every container has the region of a living process on two GPUs; all of them read the same /proc. The
monitor asks the API server for nothing, so it adds no request to those of an idle agent.
"""

import os
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from prometheus_client import CollectorRegistry

from gpu.usage import GpuUsage
from hami.monitor.monitor import INTERVAL_S
from hami.monitor.regions.layouts import V1_2
from kube.probes import ProbeServer
from tests.bench.figures import median, percentile, show
from tests.hami.monitor.nodes import Node, gpu_process, usage
from tests.hami.monitor.regionfiles import poke

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

_CONTAINERS: Final = 100
_RUNS: Final = 40
_GPUS: Final = 8


def test_monitor(tmp_path: Path) -> None:
    """Print the times of a look and of a scrape over HTTP, and how long an answer is."""
    node = Node(tmp_path)
    regions = [node.share(number, priority=number % 2) for number in range(1, _CONTAINERS + 1)]
    node.gpus = _gpus()
    own = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    monitor = node.monitor(ignored_processes=frozenset({own}))
    monitor.look()

    def look() -> None:
        for region in regions:
            poke(region, V1_2.recent_kernel, 2)
        monitor.look()

    cpu_s = time.process_time()
    look_ms = _times_ms(look)
    cpu_ms = (time.process_time() - cpu_s) * 1000 / _RUNS
    note = f"{_CONTAINERS} containers, all launching"
    show("G10", "monitor_look_ms", median(look_ms), note=note)
    show("G10", "monitor_look_p99_ms", percentile(look_ms, 99))
    share = cpu_ms / (INTERVAL_S * 1000) * 100
    show("G10", "monitor_cpu_percent", share, note="of one processor, looking every 5 s")

    registry = CollectorRegistry()
    registry.register(monitor.collector)
    server = ProbeServer("127.0.0.1", 0, {}, registry=registry)
    server.start()
    url = f"http://127.0.0.1:{server.port}/metrics"
    sizes: list[int] = []

    def scrape() -> None:
        with urllib.request.urlopen(url) as answer:
            sizes.append(len(answer.read()))

    scrape_ms = _times_ms(scrape)
    server.stop()
    show("G10", "scrape_ms", median(scrape_ms), note=note)
    show("G10", "scrape_p99_ms", percentile(scrape_ms, 99))
    show("G10", "scrape_bytes", sizes[-1])


def _gpus() -> tuple[GpuUsage, ...]:
    busy = (gpu_process(os.getpid()),)
    return tuple(usage(f"GPU-{number}", index=number, processes=busy) for number in range(_GPUS))


def _times_ms(work: Callable[[], None]) -> list[float]:
    found = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) * 1000)
    return found
