"""G17: what the agent costs a node that does nothing yet, and how soon it is there.

The simulated NVML and what it needs are in the same process; what they add is printed beside.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.claims import Claim
from tests.bench.figures import Goal, median, show
from tests.bench.kubelet import Kubelet
from tests.bench.node import Agent, Node, compiled, prepared_cluster

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

_CLAIMS = 300
_RUNS = 7
_SIMULATION = """
from pathlib import Path
import re, sys
def rss_mb():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
import dra.__main__
before = rss_mb()
from sim import driverroot, nvml
nvml.install(Path(sys.argv[1]))
print(rss_mb() - before)
"""


def test_start(node: Node, kubelet_roots: Path) -> None:
    """Print the time from the process' start until kubelet has registered it."""
    registered_s, published_s, cpu_s = [], [], []
    for run in range(_RUNS):
        # A server for each start, so that each finds no slice.
        with prepared_cluster(node, []) as cluster:
            agent = Agent(node, kubelet_roots / str(run), cluster)
            try:
                kubelet = Kubelet(agent.registry)
                cpu_s.append(agent.process.cpu_s())
                registered_s.append(kubelet.registered_s - agent.process.started_s)
                written_s, _ = cluster.server.wait_line(
                    lambda line: line.startswith("POST") and line.endswith("/resourceslices")
                )
                published_s.append(written_s - agent.process.started_s)
                kubelet.close()
            finally:
                agent.process.stop()
    show("G17", "start_to_registered_s", median(registered_s), Goal(goal=0.4, floor=1))
    show("G17", "start_to_registered_cpu_s", median(cpu_s))
    show("G17", "start_to_published_s", median(published_s))


@pytest.mark.parametrize("kind", ["", "_optimized"])
def test_memory(node: Node, kubelet_roots: Path, kind: str) -> None:
    """Print resident memory after 300 prepares, and what is not the agent's own."""
    claims = [Claim(number, limited=True) for number in range(_CLAIMS)]
    # Without docstrings: `python -OO`.
    environment = {"PYTHONOPTIMIZE": "2"} if kind else {}
    with prepared_cluster(node, claims) as cluster:
        agent = Agent(node, kubelet_roots / "memory", cluster, environment)
        try:
            kubelet = Kubelet(agent.registry)
            for claim in claims:
                kubelet.prepare(claim)
            rss_mb = agent.process.rss_mb()
            simulation_mb = _simulation_mb(node, environment)
            note = f"{simulation_mb:.1f} of it the simulation"
            show("G17", f"rss_mb{kind}", rss_mb, Goal(goal=45, floor=60), note=note)
            show("G17", f"rss_mb{kind}_of_files", agent.process.shared_mb(), note="shared pages")
            show("G17", f"threads{kind}", agent.process.threads())
            for claim in claims:
                kubelet.unprepare(claim)
            kubelet.close()
        finally:
            agent.process.stop()


def _simulation_mb(node: Node, environment: dict[str, str]) -> float:
    output = subprocess.run(  # noqa: S603 - our own modules
        [sys.executable, "-c", _SIMULATION, str(node.gpu_file)],
        check=True,
        capture_output=True,
        text=True,
        env=compiled(node) | environment,
    )
    return float(output.stdout)
