"""HAMi's names of the metrics, as its dashboards ask for them, and where all names are told."""

import re
from pathlib import Path

from hami.monitor.haminames import NEW, OLD
from hami.monitor.holders import ALLOCATED
from hami.monitor.metrics import FAMILIES
from tests.hami.monitor.nodes import (
    GPU,
    GPU_B,
    NOW_S,
    Node,
    looked,
    pod,
    usage,
)

MIB = 2**20


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


def test_all_names_are_in_the_document() -> None:
    """Who looks for a metric finds it, and who reads of one gets it."""
    text = (Path(__file__).parents[3] / "docs/monitor.md").read_text(encoding="utf-8")
    written = set(re.findall(r"`((?:gpuslice|hami)_[a-z_]+|[A-Za-z]\w+_of_container)`", text))
    names = {name for name, _, _ in (*FAMILIES, *NEW, *OLD)}
    assert {name for name in names if f"`{name}`" not in text} == set()
    assert written - names == {"hami_build_info"}
    for name, _, labels in FAMILIES:
        assert all(f"`{label}`" in text for label in labels), name
