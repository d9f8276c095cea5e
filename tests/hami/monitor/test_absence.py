"""What is not known is absent from the metrics, and one failure takes nothing else with it."""

import os
from dataclasses import replace
from pathlib import Path

from gpu.errors import NvmlError
from gpu.nvml import Nvml
from gpu.usage import Figure, UsageReader
from hami.monitor.monitor import Monitor
from hami.monitor.regions.layouts import V1_2
from kube.events import Regarding
from tests.gpu.simulating import simulated
from tests.hami.monitor.nodes import (
    GPU,
    GPU_B,
    Node,
    looked,
    pod_uid,
    scraped,
    usage,
)
from tests.hami.monitor.regionfiles import placed, poke
from tests.hami.monitor.test_processes import Proc, slice_of

MIB = 2**20


def test_what_is_not_known_is_absent(node: Node) -> None:
    """Neither 0 nor NaN stands for a figure that nobody has."""
    stuck = node.share(1)
    poke(stuck, V1_2.slots + 1936, 13, size=8)
    broken = node.share(2)
    broken.write_bytes(b"nonsense")
    node.gpus = (
        usage(
            utilization_percent=None,
            memory_utilization_percent=None,
            memory_used_bytes=None,
            processes=None,
        ),
    )
    series = looked(node, legacy_names=True)
    for name in (
        "gpuslice_share_memory_used_bytes",
        "gpuslice_share_utilization_percent",
        "gpuslice_share_memory_above_grant_bytes",
        "hami_vgpu_memory_used_bytes",
        "hami_container_device_utilization_ratio",
        "gpuslice_gpu_utilization_percent",
        "gpuslice_gpu_memory_used_bytes",
        "gpuslice_gpu_processes",
        "gpuslice_gpu_stray_memory_bytes",
        "hami_host_gpu_memory_used_bytes",
        "hami_host_gpu_utilization_ratio",
        "HostGPUMemoryUsage",
    ):
        assert series.of(name) == [], name
    assert series.of("gpuslice_share_memory_limit_bytes", pod="pod-1") == [3000 * MIB]
    assert series.of("gpuslice_region_read_success", pod="pod-1") == [1]
    assert series.of("gpuslice_region_read_success", pod="pod-2") == [0]
    assert series.of("gpuslice_share_memory_granted_bytes", pod="pod-2") == [3000 * MIB]


def test_a_region_that_nobody_has_used_uses_nothing(node: Node) -> None:
    """That is known: a container that has not begun uses no memory."""
    path = node.share()
    path.unlink()
    with path.open("wb") as file:
        file.truncate(2008953)
    series = looked(node)
    assert series.of("gpuslice_share_memory_used_bytes") == [0]
    assert series.of("gpuslice_region_read_success") == [1]
    assert series.of("hami_vgpu_memory_used_bytes") == []
    assert path.stat().st_blocks == 0


def test_ghosts_are_not_shown(node: Node, tmp_path: Path) -> None:
    """A killed process leaves 100 MiB in the region, which nobody uses."""
    proc = Proc(tmp_path / "proc")
    proc.add(4711, 1, cgroup=slice_of(pod_uid(1)))
    node.share()
    placed("a_one_proc_after_sigkill", node.claim_region("claim-1"))
    monitor = node.monitor(feedback=False, proc=proc.root)
    monitor.look()
    series = scraped(monitor)
    assert series.of("gpuslice_share_memory_used_bytes") == [0]
    assert series.of("gpuslice_share_processes") == [0]
    assert series.of("gpuslice_monitor_source_success", source="processes") == [1]


def test_without_the_hosts_processes_use_is_not_known(node: Node, tmp_path: Path) -> None:
    """An agent that sees its own processes only must not say that nobody uses anything."""
    proc = Proc(tmp_path / "proc")
    proc.add(7)
    node.share()
    monitor = node.monitor(feedback=False, proc=proc.root)
    monitor.look()
    series = scraped(monitor)
    assert series.of("gpuslice_share_memory_used_bytes") == []
    assert series.of("gpuslice_region_read_success") == [0]
    assert series.of("gpuslice_monitor_source_success", source="processes") == [0]
    proc.add(os.getpid(), cgroup=slice_of(pod_uid(1)))
    monitor.look()
    series = scraped(monitor)
    assert series.of("gpuslice_share_memory_used_bytes") == [768 * MIB]
    assert series.of("gpuslice_monitor_source_success", source="processes") == [1]


def test_one_failure_of_nvml_hides_one_figure(node: Node) -> None:
    """By the real binding, with an error of one call and with a driver that is gone."""
    node.share()
    failing = f"""
gpus:
- profile: a10
  uuid: {GPU}
  errors: {{nvmlDeviceGetUtilizationRates: UNKNOWN}}
- profile: a10
  uuid: {GPU_B}
  utilization_percent: 40
  processes: [{{pid: {os.getpid()}, memory_mib: 64}}]
"""
    sources = replace(node.sources(), gpus=None)
    with simulated(failing), Nvml() as session:
        session.read()
        current: list[Nvml | None] = [session]
        sources = replace(sources, gpus=UsageReader(lambda: current[0]))
        here = Regarding(api_version="v1", kind="Node", name="node-1", uid="n")
        monitor = Monitor(sources, node=here, recorder=node.events)
        monitor.look()
        series = scraped(monitor)
        assert series.of("gpuslice_gpu_utilization_percent", uuid=GPU) == []
        assert series.of("gpuslice_gpu_collect_success", uuid=GPU, figure="utilization") == [0]
        assert series.of("gpuslice_gpu_memory_used_bytes", uuid=GPU) == [0]
        assert series.of("gpuslice_gpu_utilization_percent", uuid=GPU_B) == [40]
        assert series.of("gpuslice_gpu_memory_used_bytes", uuid=GPU_B) == [64 * MIB]
        assert series.of("gpuslice_gpu_processes", uuid=GPU_B, owner="stray") == [1]
        assert len(series.of("gpuslice_gpu_collect_success")) == 2 * len(Figure)
        assert series.of("gpuslice_monitor_source_success", source="gpus") == [1]
        current[0] = None
        monitor.look()
    series = scraped(monitor)
    assert series.of("gpuslice_monitor_source_success", source="gpus") == [0]
    assert series.of("gpuslice_gpu_memory_used_bytes") == []
    assert series.of("gpuslice_share_memory_used_bytes") == [768 * MIB]


def test_sources_fail_one_by_one(node: Node) -> None:
    """Each has its gauge, and the others' figures stay."""
    node.share()
    node.gpus = NvmlError("DRIVER_NOT_LOADED", "nvmlInitWithFlags")
    node.held = None
    series = looked(node)
    assert series.of("gpuslice_share_memory_used_bytes") == [768 * MIB]
    for source, worked in {"gpus": 0, "pod_resources": 0, "pods": 1, "regions": 1}.items():
        assert series.of("gpuslice_monitor_source_success", source=source) == [worked]
    node.pods = None
    node.gpus = (usage(),)
    series = looked(node)
    assert series.of("gpuslice_monitor_source_success", source="pods") == [0]
    assert series.of("gpuslice_gpu_memory_used_bytes") == [0]
    assert series.of("gpuslice_share_memory_used_bytes") == []


def test_before_the_first_look_there_is_nothing(node: Node) -> None:
    """A monitor that has not looked says nothing, rather than that nothing is used."""
    assert scraped(node.monitor()) == {}
