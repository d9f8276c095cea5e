"""How devices are laid out over the slices of a pool."""

import json
import re
from dataclasses import replace
from typing import Any

import kubernetes_validate
from hypothesis import given
from hypothesis import strategies as st

from dra.devices import SharingPolicy, build_devices
from dra.layout import build_slices
from gpu.model import Gpu, GpuUuid, MigDevice, PciBusId
from sim.apiserver.rules.findings import Findings
from sim.apiserver.rules.slices import check_slice
from tests.dra.gpus import GPU, inventory_of, many_gpus

TAINT = {"key": "gpuslice.io/maintenance", "effect": "NoSchedule"}


def devices_of(*found: Gpu) -> tuple[dict[str, Any], ...]:
    """Return the devices of a node with the GPUs *found*."""
    inventory = inventory_of(*found)
    return build_devices(inventory, sharing_kept=True, policy=SharingPolicy()).devices


def slices_of(devices: tuple[dict[str, Any], ...], node: str = "node-1") -> list[dict[str, Any]]:
    """Return the slices as they are sent, all of generation 1."""
    slices = build_slices(devices, node_name=node, node_uid="5f0e7a30-0000-4000-8000-000000000001")
    return [
        item | {"spec": item["spec"] | {"pool": item["spec"]["pool"] | {"generation": 1}}}
        for item in slices
    ]


def refused(item: dict[str, Any]) -> list[str]:
    """Return what an API server would say against one slice."""
    found = Findings()
    check_slice(found, item, None, server_minor=36)
    return [str(cause) for cause in found.causes]


def test_a_slice_belongs_to_its_node() -> None:
    """The pool is named after the node, which owns the slice."""
    (item,) = slices_of(devices_of(GPU))
    assert item["spec"]["driver"] == "gpuslice.io"
    assert item["spec"]["nodeName"] == item["spec"]["pool"]["name"] == "node-1"
    assert item["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "node-1",
            "uid": "5f0e7a30-0000-4000-8000-000000000001",
            "controller": True,
        }
    ]
    assert item["metadata"]["generateName"] == "00000-gpuslice.io-node-1-"


def test_no_devices_make_one_empty_slice() -> None:
    """A node without GPUs says that the driver is there."""
    (item,) = slices_of(())
    assert "devices" not in item["spec"]
    assert item["spec"]["pool"]["resourceSliceCount"] == 1
    assert refused(item) == []


def test_odd_hardware_is_laid_out_within_the_limits() -> None:
    """200 tainted devices beside odd ones make slices of at most 64, in bus order."""
    odd = (
        replace(GPU, name="NVIDIA GeForce RTX Example Super Long Marketing Name " * 2),
        replace(
            GPU,
            uuid=GpuUuid("GPU-d1"),
            pci_bus_id=PciBusId("0000:01:00.0"),
            name="NVIDIA GB10",
            memory_mib=None,
        ),
        replace(
            GPU,
            uuid=GpuUuid("GPU-d2"),
            pci_bus_id=PciBusId("0000:02:00.0"),
            mig_enabled=True,
            mig_devices=(
                MigDevice(
                    uuid=GpuUuid("MIG-d3"),
                    parent_uuid=GpuUuid("GPU-d2"),
                    profile="1g.6gb",
                    gpu_instance_id=1,
                    compute_instance_id=0,
                    memory_mib=5952,
                    multiprocessors=14,
                ),
            ),
        ),
    )
    plain = devices_of(*odd)
    assert [device["name"] for device in plain] == ["gpu-d1", "mig-d3", GPU.uuid.lower()]
    tainted = tuple(device | {"taints": [TAINT]} for device in devices_of(*many_gpus(200)))
    slices = slices_of((*plain, *tainted))
    assert [len(item["spec"]["devices"]) for item in slices] == [64, 64, 64, 11]
    assert {item["spec"]["pool"]["resourceSliceCount"] for item in slices} == {4}
    assert [item["metadata"]["generateName"][:6] for item in slices] == [
        "00000-",
        "00001-",
        "00002-",
        "00003-",
    ]
    own = {
        frozenset(key for key in device["attributes"] if "/" not in key)
        for item in slices
        for device in item["spec"]["devices"]
    }
    assert len(own) == 1
    for item in slices:
        assert refused(item) == []


def test_untainted_devices_fill_slices() -> None:
    """129 devices without taints need two slices."""
    sizes = [len(item["spec"]["devices"]) for item in slices_of(devices_of(*many_gpus(129)))]
    assert sizes == [128, 1]


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?(\.[a-z0-9]{1,60}){0,4}", fullmatch=True))
def test_every_node_name_makes_a_valid_slice_name(node: str) -> None:
    """Whatever the server appends to the generated name, the result is a name."""
    (item,) = slices_of((), node)
    name = item["metadata"]["generateName"]
    assert len(name) <= 58
    label = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert re.fullmatch(rf"{label}(\.{label})*", name + "x7k2p")


def test_slices_meet_the_published_schema() -> None:
    """A slice is what the schema of Kubernetes says, without unknown fields."""
    tainted = tuple(device | {"taints": [TAINT]} for device in devices_of(*many_gpus(2)))
    for devices in ((), devices_of(GPU), tainted):
        (item,) = slices_of(devices)
        kubernetes_validate.validate(
            item | {"metadata": {"name": "a"} | item["metadata"]}, "1.37", strict=True
        )


def delimited(size: int) -> int:
    """Return the bytes of a protobuf field of *size* bytes: tag, length, content."""
    return 1 + max(1, -(-size.bit_length() // 7)) + size


def protobuf_bytes(value: Any, *, key: str = "") -> int:
    """Return how many bytes a JSON value of a slice takes as a protobuf field.

    A map is a repeated message of key and value there, a quantity a message of one string.
    """
    if isinstance(value, bool | int):
        return 2
    if isinstance(value, str):
        size = delimited(len(value.encode()))
        return delimited(size) if key in QUANTITIES else size
    if isinstance(value, list):
        return sum(protobuf_bytes(entry, key=key) for entry in value)
    if key in MAPS:
        entries = (
            delimited(len(name)) + protobuf_bytes(entry, key=name) for name, entry in value.items()
        )
        return sum(delimited(size) for size in entries)
    return delimited(sum(protobuf_bytes(entry, key=name) for name, entry in value.items()))


MAPS = {"attributes", "capacity"}
QUANTITIES = {"value", "default", "min", "max", "step", "validValues"}


def test_eight_gpus_are_one_small_slice() -> None:
    """A node's slice takes at most 6 KB as the server stores it and 8.6 KB as JSON."""
    (item,) = slices_of(devices_of(*many_gpus(8)), "gpu-node-0017.example.internal")
    assert protobuf_bytes(item) <= 6144
    assert len(json.dumps(item, separators=(",", ":"))) <= 8600
