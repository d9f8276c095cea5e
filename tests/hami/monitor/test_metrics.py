"""What Prometheus reads: what is known, of what runs, under labels that never change."""

import os
import random
import subprocess
import sys

from cdi.region import Reset, create_region, reset_region
from hami.monitor.holders import ALLOCATED
from hami.monitor.metrics import FAMILIES
from hami.monitor.regions.layouts import V1_2
from tests.hami.monitor.nodes import (
    GPU,
    GPU_B,
    NOW_S,
    Node,
    claim,
    ended,
    gpu_process,
    live_region,
    looked,
    pod,
    pod_uid,
    prepared_device,
    scraped,
    usage,
)
from tests.hami.monitor.regionfiles import placed, poke

MIB = 2**20


def test_a_share_of_a_claim(node: Node) -> None:
    """Grant, limit, use and utilisation, with claim, share, UUID, pod and container as labels."""
    node.share()
    series = looked(node)
    labels = {
        "namespace": "team",
        "pod": "pod-1",
        "container": "main",
        "claim": "claim-1",
        "share_id": "share-1",
        "uuid": GPU,
    }
    assert series.of("gpuslice_gpu_allocation_info", mode="share", gpu_uuid=GPU, **labels) == [1]
    assert series.of("gpuslice_share_memory_granted_bytes", **labels) == [3000 * MIB]
    assert series.of("gpuslice_share_cores_granted_percent", **labels) == [30]
    assert series.of("gpuslice_share_memory_limit_bytes", **labels) == [3000 * MIB]
    assert series.of("gpuslice_share_memory_used_bytes", **labels) == [768 * MIB]
    assert series.of("gpuslice_share_memory_above_grant_bytes", **labels) == [0]
    assert series.of("gpuslice_share_utilization_percent", **labels) == [0]
    assert series.of("gpuslice_share_processes", claim="claim-1") == [1]
    assert series.of("gpuslice_share_last_kernel_timestamp_seconds") == [1795977645]
    assert series.of("gpuslice_region_read_success") == [1]
    assert series.of("gpuslice_monitor_scan_timestamp_seconds") == [NOW_S]


def test_a_container_of_the_plugin(node: Node) -> None:
    """Its grant is what the annotation says, and it has no claim."""
    text = f"{GPU},NVIDIA,3000,30:{GPU_B},NVIDIA,2048,60:;"
    node.pods = [pod(annotations={ALLOCATED: text})]
    live_region(node.plugin_region())
    series = looked(node)
    assert series.of("gpuslice_gpu_allocation_info", claim="", uuid=GPU_B, mode="share") == [1]
    assert series.of("gpuslice_share_memory_granted_bytes", uuid=GPU_B) == [2048 * MIB]
    assert series.of("gpuslice_share_memory_used_bytes", uuid=GPU_B) == [1003487232]
    assert series.of("gpuslice_share_utilization_percent", uuid=GPU_B) == [87]


def test_without_a_word_from_anybody_the_region_tells_its_gpus(node: Node) -> None:
    """Use and limit are known, a grant is not."""
    node.pods = [pod()]
    live_region(node.plugin_region())
    series = looked(node)
    assert series.of("gpuslice_share_memory_used_bytes", uuid=GPU) == [768 * MIB]
    assert series.of("gpuslice_share_memory_granted_bytes") == []


def test_a_pod_that_has_ended_is_gone_with_the_next_scrape(node: Node) -> None:
    """Although it still exists, and although nobody has looked again since."""
    node.share(1)
    node.share(2)
    monitor = node.monitor(feedback=False)
    monitor.look()
    assert node.pods is not None
    node.pods = [ended(node.pods[0]), node.pods[1]]
    names = {dict(labels).get("pod") for _, labels in scraped(monitor)}
    assert names == {None, "pod-2"}
    assert node.claim_region("claim-1").exists()
    node.pods = []
    assert {dict(labels).get("pod") for _, labels in scraped(monitor)} == {None}


def test_whose_processes_are_on_a_gpu(node: Node) -> None:
    """Always the same series, for the same owners; a process beside Kubernetes is a stray."""
    node.share()
    node.gpus = (
        usage(processes=(gpu_process(os.getpid(), 100), gpu_process(2**22 + 5, None))),
        usage(GPU_B),
    )
    series = looked(node)
    assert series.of("gpuslice_gpu_processes", uuid=GPU, owner="stray") == [1]
    assert series.of("gpuslice_gpu_processes", uuid=GPU, owner="unknown") == [1]
    assert series.of("gpuslice_gpu_processes", uuid=GPU, owner="share") == [0]
    assert series.of("gpuslice_gpu_stray_memory_bytes", uuid=GPU) == [100 * MIB]
    assert len(series.of("gpuslice_gpu_processes", uuid=GPU_B)) == 3


def test_a_hundred_changes_make_no_new_series(node: Node) -> None:
    """All that changes is in values, and no label tells a state."""
    paths = [node.share(number, priority=number % 2) for number in range(1, 6)]
    monitor = node.monitor(legacy_names=True)
    rng = random.Random(1)  # noqa: S311 - figures to try
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for number in range(100):
        for path in paths:
            poke(path, V1_2.recent_kernel, rng.choice([0, 1, 2]))
            poke(path, V1_2.utilization_switch, rng.choice([0, 1]))
            for device in range(2):
                place = V1_2.slots + V1_2.slot.used + 64 * device
                for field in range(5):
                    poke(path, place + 8 * field, rng.randrange(2**33), size=8)
                assert V1_2.slot.util is not None
                poke(path, V1_2.slots + V1_2.slot.util + 48 * device + 16, rng.randrange(300), 8)
        busy = gpu_process(os.getpid(), rng.randrange(1000))
        node.gpus = (usage(utilization_percent=number, processes=(busy,) * (number % 2)),)
        monitor.look()
        series = scraped(monitor)
        assert max(series.of("gpuslice_share_utilization_percent")) <= 100
        if number == 0:
            # It is there while somebody cannot be held back, which is nobody here.
            seen = set(series)
        assert set(series) == seen


def test_labels_are_written_down(node: Node) -> None:
    """Each series has the labels of its family and no others."""
    node.share()
    node.gpus = (usage(),)
    labels = {name: set(labels) for name, _, labels in FAMILIES}
    for name, has in looked(node, hami_names=False):
        assert {key for key, _ in has} == labels[name]


def test_a_join_needs_the_gpus_own_uuid(node: Node) -> None:
    """Whole GPUs, and shares of one, are joined with another exporter's figures by UUID."""
    node.pods = [pod(1, claim="claim-1"), pod(2, claim="claim-2")]
    whole = prepared_device(dedicated=True, share_id=None)
    node.claims = [claim(1, devices=(whole,), limits=(), options=None), claim(2)]
    live_region(node.claim_region("claim-2"))
    series = looked(node)
    assert series.of("gpuslice_gpu_allocation_info", uuid=GPU, pod="pod-1", mode="whole") == [1]
    assert series.of("gpuslice_gpu_allocation_info", uuid=GPU, pod="pod-2", mode="share") == [1]
    assert series.of("gpuslice_region_read_success", pod="pod-1") == []
    assert pod_uid(1) not in {value for _, labels in series for _, value in labels}


def test_a_look_stops_no_reset(node: Node) -> None:
    """It keeps no region open, makes no page in one, and leaves no lease."""
    used, unused = node.share(1), node.share(2)
    placed("a_one_proc_after_sigkill", used)
    unused.unlink()
    create_region(unused.parent)
    monitor = node.monitor()
    monitor.look()
    assert reset_region(used) is Reset.DONE
    assert reset_region(unused) is Reset.FRESH
    monitor.look()
    assert reset_region(used) is Reset.FRESH


def test_it_loads_nothing_heavy() -> None:
    """The monitor is on every node, and what it loads is paid for everywhere."""
    heavy = ["kubernetes", "aiohttp", "fastapi", "uvicorn", "rich", "yaml", "extender"]
    program = (
        "import sys, dra.__main__, hami.monitor.monitor, hami.monitor.podresources;"
        f"print([name for name in {heavy} if sys.modules.get(name)])"
    )
    done = subprocess.run(  # noqa: S603 - our own modules
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"
