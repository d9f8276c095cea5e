"""Feedback in real regions, and that it never outlives the monitor."""

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from gpu.errors import NvmlError
from gpu.usage import GpuUsage
from hami.monitor.monitor import Monitor, MonitorOptions
from hami.monitor.patience import PatientReadings
from hami.monitor.regions.layouts import V1_2
from tests.hami.monitor.nodes import NODE, NOW_S, Node, claim, live_region, pod, scraped, usage
from tests.hami.monitor.regionfiles import peek, peek_recent, placed, poke
from tests.patience import DEADLINE_S, eventually

SWITCH = V1_2.utilization_switch


def launches(path: Path, at_s: float = NOW_S) -> None:
    """Have a process of the region launch a kernel, as the library notes it."""
    poke(path, V1_2.recent_kernel, 2)
    assert V1_2.last_kernel is not None
    poke(path, V1_2.last_kernel, int(at_s), size=8)


def rests(path: Path) -> None:
    """Have no process of the region launch for a while."""
    poke(path, V1_2.recent_kernel, 0)
    assert V1_2.last_kernel is not None
    poke(path, V1_2.last_kernel, int(NOW_S - 100), size=8)


def test_a_claim_of_low_priority_waits_for_one_of_high(node: Node) -> None:
    """What was granted decides, not what the region says of itself."""
    high, low = node.share(1, priority=0), node.share(2, priority=1)
    launches(high)
    monitor = node.monitor()
    monitor.look()
    assert (peek_recent(high), peek(high, SWITCH)) == (1, 0)
    assert (peek_recent(low), peek(low, SWITCH)) == (-1, 1)
    assert scraped(monitor).of("gpuslice_share_blocked", pod="pod-2") == [1]
    assert scraped(monitor).of("gpuslice_share_blocked", pod="pod-1") == [0]
    rests(high)
    monitor.look()
    assert (peek_recent(low), peek(low, SWITCH)) == (0, 0)
    assert scraped(monitor).of("gpuslice_share_blocked", pod="pod-2") == [0]


def test_claims_and_containers_of_the_plugin_wait_for_one_another(node: Node) -> None:
    """Where both are on a node, one rule is for both; a plugin's priority is its region's."""
    high = live_region(node.plugin_region(1))
    assert node.pods is not None
    node.pods.append(pod(1))
    low = node.share(2)
    launches(high)
    node.monitor().look()
    assert peek_recent(low) == -1


def test_a_container_without_core_limit_is_told_of_once(node: Node) -> None:
    """It is not held back, a log line says so once, and a metric as long as it is so."""
    high, low = node.share(1, priority=0), node.share(2)
    for index in range(16):
        poke(low, V1_2.core_limits + 8 * index, 100, size=8)
    monitor = node.monitor()
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            launches(high)
            monitor.look()
    assert peek_recent(low) >= 0
    said = [each for each in logs if each["event"] == "priority has no effect"]
    assert [each["region"] for each in said] == [str(low)]
    series = scraped(monitor)
    assert series.of("gpuslice_priority_without_effect") == [1]
    assert series.of("gpuslice_share_blocked", pod="pod-2") == []
    rests(high)
    monitor.look()
    assert scraped(monitor).of("gpuslice_priority_without_effect") == []


def test_a_claim_that_is_never_limited_is_not_held_back(node: Node) -> None:
    """Its policy takes the limit out of force, and the library obeys nobody."""
    high, low = node.share(1, priority=0), node.share(2)
    options = node.claims[1].options
    assert options is not None
    disabled = type(options)(library_sha256=options.library_sha256, core_policy="disable")
    node.claims[1] = claim(2, options=disabled)
    launches(high)
    node.monitor().look()
    assert peek_recent(low) >= 0


def test_regions_are_steered_while_pods_are_not_known(node: Node) -> None:
    """The API server is away for an hour, and nobody waits for so long."""
    high, low = node.share(1, priority=0), node.share(2)
    monitor = node.monitor()
    launches(high)
    monitor.look()
    assert peek_recent(low) == -1
    node.pods = None
    rests(high)
    monitor.look()
    assert peek_recent(low) == 0


def test_without_feedback_nothing_is_stored(node: Node) -> None:
    """An administrator switched it off: regions stay as the library makes them."""
    high, low = node.share(1, priority=0), node.share(2)
    launches(high)
    before = (high.read_bytes(), low.read_bytes())
    node.monitor(feedback=False).look()
    assert (high.read_bytes(), low.read_bytes()) == before


def test_start_and_stop_release_everybody(node: Node) -> None:
    """Also a container that is not known to run, and one of the plugin's without a pod."""
    blocked = [
        placed("e_blocked_by_monitor", node.plugin_region(8)),
        placed("e_blocked_by_monitor", node.claim_region("claim-9")),
    ]
    node.claims.append(claim(9))
    node.pods = None
    monitor = node.monitor(interval_s=600.0)
    monitor.start()
    assert [peek_recent(path) for path in blocked] == [0, 0]
    eventually(monitor.snapshot)
    for path in blocked:
        poke(path, V1_2.recent_kernel, -1)
        poke(path, SWITCH, 0)
    monitor.stop()
    monitor.stop()
    assert [(peek_recent(path), peek(path, SWITCH)) for path in blocked] == [(0, 1), (0, 1)]


def test_nothing_is_stored_after_a_stop(node: Node) -> None:
    """A look that was still under way when the time for a stop had passed holds nobody back."""
    high, low = node.share(1, priority=0), node.share(2)
    launches(high)
    monitor = node.monitor()
    monitor.stop()
    monitor.look()
    assert peek_recent(low) >= 0


def test_a_monitor_that_fails_blocks_nobody(node: Node) -> None:
    """A defect of one look must not leave those waiting whom an earlier one has told to."""
    high, low = node.share(1, priority=0), node.share(2)
    launches(high)
    monitor = node.monitor(interval_s=0.01)
    monitor.start()
    eventually(lambda: peek_recent(low) == -1)
    claims = node.claims
    node.claims = [None]  # type: ignore[list-item]
    eventually(lambda: peek_recent(low) == 0)
    node.claims = claims
    eventually(lambda: peek_recent(low) == -1)
    monitor.stop()
    assert peek_recent(low) == 0


def test_a_driver_that_hangs_holds_up_no_feedback(node: Node) -> None:
    """One call is out, and the rest goes on; when it comes back, the driver is asked again."""
    high, low = node.share(1, priority=0), node.share(2)
    launches(high)
    going, asked = threading.Event(), []

    class Hanging:
        def read(self) -> tuple[GpuUsage, ...]:
            asked.append(1)
            going.wait(DEADLINE_S)
            return (usage(),)

    readings = PatientReadings(Hanging(), within_s=0.01)
    for _ in range(3):
        with pytest.raises(NvmlError, match="TIMEOUT"):
            readings.read()
    assert len(asked) == 1

    monitor = Monitor(
        replace(node.sources(), gpus=Hanging()),
        node=NODE,
        recorder=node.events,
        options=MonitorOptions(interval_s=0.01),
        now_s=lambda: NOW_S,
    )
    monitor.start()
    eventually(lambda: peek_recent(low) == -1)
    rests(high)
    eventually(lambda: peek_recent(low) == 0)
    assert scraped(monitor).of("gpuslice_monitor_source_success", source="gpus") == [0]
    going.set()
    eventually(lambda: scraped(monitor).of("gpuslice_gpu_memory_used_bytes"))
    assert eventually(readings.read) == (usage(),)
    monitor.stop()


_MONITOR = """
import signal, sys
from pathlib import Path
from tests.hami.monitor.nodes import Node, claim
# No handler: one would not run when the signal comes just before the main thread begins to wait.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
node = Node(Path(sys.argv[1]), pods=None)
node.claims += [claim(1, priority=0), claim(2)]
monitor = node.monitor(interval_s=0.05)
monitor.start()
signal.sigwait([signal.SIGTERM])
monitor.stop()
"""


def monitor_process(root: Path) -> subprocess.Popen[bytes]:
    """Run a monitor in a process of its own until it is ended."""
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", _MONITOR, str(root)],
        stdout=subprocess.DEVNULL,
        cwd=Path(__file__).parents[3],
    )


def test_a_killed_monitor_blocks_until_the_next_starts_and_no_longer(node: Node) -> None:
    """SIGKILL leaves a container waiting; the next monitor's start ends that, before any look."""
    high, low = node.share(1, priority=0), node.share(2)

    launches(high)
    child = monitor_process(node.root)
    eventually(lambda: peek_recent(low) == -1)
    child.kill()
    child.wait()
    assert peek_recent(low) == -1

    monitor = node.monitor(interval_s=600.0, feedback=False)
    monitor.start()
    assert peek_recent(low) == 0
    monitor.stop()


def test_a_monitor_that_is_told_to_end_blocks_nobody(node: Node) -> None:
    """SIGTERM at any moment: when the process has ended, nobody waits."""
    high, low = node.share(1, priority=0), node.share(2)

    launches(high)
    child = monitor_process(node.root)
    eventually(lambda: peek_recent(low) == -1)
    child.send_signal(signal.SIGTERM)
    assert child.wait() == 0
    assert (peek_recent(low), peek(low, SWITCH), peek(high, SWITCH)) == (0, 1, 1)
