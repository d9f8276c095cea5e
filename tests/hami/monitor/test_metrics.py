"""What Prometheus reads: what is known, of what runs, under labels that never change."""

import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpu.errors import NvmlError
from gpu.nvml import Nvml
from gpu.usage import Figure, UsageReader
from hami.monitor.haminames import NEW, OLD
from hami.monitor.holders import ALLOCATED
from hami.monitor.metrics import FAMILIES
from hami.monitor.monitor import Monitor
from hami.monitor.regions.layouts import V1_2
from kube.events import Regarding
from tests.gpu.simulating import simulated
from tests.hami.monitor.nodes import (
    GPU,
    GPU_B,
    NOW_S,
    Node,
    Series,
    claim,
    ended,
    gpu_process,
    live_region,
    pod,
    pod_uid,
    prepared_device,
    scraped,
    usage,
)
from tests.hami.monitor.regionfiles import placed, poke
from tests.hami.monitor.test_processes import Proc, slice_of

MIB = 2**20


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Return a node without pods."""
    return Node(tmp_path)


def looked(node: Node, **options: bool) -> Series:
    """Return what a scrape reads after one look."""
    monitor = node.monitor(feedback=False, **options)
    monitor.look()
    return scraped(monitor)


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


def test_hamis_names(node: Node) -> None:
    """As HAMi's dashboards ask for them, for claims too; the older ones by a setting."""
    node.share()
    node.gpus = (usage(memory_used_bytes=7, utilization_percent=8, memory_utilization_percent=9),)
    series = looked(node)
    labels = {
        "zone": "vGPU",
        "namespace": "team",
        "pod": "pod-1",
        "container": "main",
        "vdevice_index": "1",
        "device_uuid": GPU_B,
    }
    assert series.of("hami_vgpu_memory_used_bytes", **labels) == [1003487232]
    assert series.of("hami_container_device_memory_bytes", **labels) == [1003487232]
    assert series.of("hami_vgpu_memory_limit_bytes", **labels) == [2 * 2**30]
    assert series.of("hami_vgpu_memory_context_bytes", **labels) == [256 * MIB]
    assert series.of("hami_vgpu_memory_module_bytes", **labels) == [0]
    assert series.of("hami_vgpu_memory_buffer_bytes", **labels) == [735051776]
    assert series.of("hami_container_device_utilization_ratio", **labels) == [87]
    assert series.of("hami_container_last_kernel_elapsed_seconds", **labels) == [NOW_S - 1795977645]
    host = {"device_index": "0", "device_uuid": GPU, "device_type": "NVIDIA-A10", "zone": "vGPU"}
    assert series.of("hami_host_gpu_memory_used_bytes", node="node-1", **host) == [7]
    assert series.of("hami_host_gpu_utilization_ratio", node="node-1", **host) == [8]
    assert series.of("hami_host_gpu_memory_controller_utilization_ratio", **host) == [9]
    assert "HostCoreUtilization" not in series.names()

    old = looked(node, legacy_names=True)
    assert old.of("HostGPUMemoryUsage", nodeid="node-1", deviceidx="0") == [7]
    labels = {"podname": "pod-1", "ctrname": "main", "vdeviceid": "0", "deviceuuid": GPU}
    for name in (
        "vGPU_device_memory_usage_in_bytes",
        "Device_memory_desc_of_container",
        "vGPU_device_memory_limit_in_bytes",
        "Device_utilization_desc_of_container",
        "Device_last_kernel_of_container",
    ):
        assert len(old.of(name, podnamespace="team", **labels)) == 1
    assert not any(
        name.startswith(("hami", "Host")) for name in looked(node, hami_names=False).names()
    )


def test_a_partition_under_hamis_name(node: Node) -> None:
    """Its ids are those of the pod's annotation."""
    mig = "MIG-aa000000-1111-2222-3333-000000bb0000"
    allocation = (
        f'[{{"containerIndex":0,"deviceIndex":0,"gpuUUID":"{GPU}","profile":"1g.5gb",'
        f'"placement":{{"start":0,"size":1}},"migUUID":"{mig}","gpuInstanceID":7,'
        '"computeInstanceID":0}]'
    )
    annotations = {
        ALLOCATED: f"{GPU},NVIDIA,4864,14:;",
        "hami.io/vgpu-mig-allocations": allocation,
    }
    node.pods = [pod(annotations=annotations)]
    series = looked(node, legacy_names=True)
    assert series.of(
        "hami_mig_device_info",
        device_uuid=GPU,
        mig_uuid=mig,
        profile="1g.5gb",
        gpu_instance_id="7",
        compute_instance_id="0",
    ) == [1]
    assert series.of("MigInfo", instanceid="7") == [1]
    assert series.of("gpuslice_gpu_allocation_info", uuid=mig, gpu_uuid=GPU, mode="mig") == [1]


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


def test_all_names_are_in_the_document() -> None:
    """Who looks for a metric finds it, and who reads of one gets it."""
    text = (Path(__file__).parents[3] / "docs/monitor.md").read_text(encoding="utf-8")
    written = set(re.findall(r"`((?:gpuslice|hami)_[a-z_]+|[A-Za-z]\w+_of_container)`", text))
    names = {name for name, _, _ in (*FAMILIES, *NEW, *OLD)}
    assert {name for name in names if f"`{name}`" not in text} == set()
    assert written - names == {"hami_build_info"}
    for name, _, labels in FAMILIES:
        assert all(f"`{label}`" in text for label in labels), name
