"""Nodes and slices of a large cluster, made by the generator that the agent publishes with.

Only the scheduler looks at them, so a Node is an object that was once Ready and a slice is what
`dra.devices` and `dra.layout` make of eight GPUs. Held against them is what Kubernetes measures
itself with (test/integration/scheduler_perf/dra): devices that go to one claim each, with thirteen
attributes and two capacities that nobody asks for, and a class that tests the driver alone.
"""

import copy
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra.devices import SharingPolicy, build_devices
from dra.layout import build_slices
from gpu import names
from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, PciBusId
from kube.objects import JsonObject

GPUS: Final = 8
WHOLE_DRIVER: Final = "whole.gpuslice.test"
_UUIDS: Final = uuid.UUID("2b0c7a60-7c8e-4a3e-9d55-0f3a5b0a6c11")
_KEPT: Final = ("mode", "uuid", "productName")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What nodes offer and what claims then ask for."""

    name: str
    slices: Callable[[str, str], Sequence[JsonObject]]
    """Of a node's name and UID."""
    device_class: str
    capacity: JsonObject | None = None

    def claim_spec(self) -> JsonObject:
        """Return the `spec` of a claim for one device or one share of it."""
        exactly: dict[str, Any] = {"deviceClassName": self.device_class}
        if self.capacity:
            exactly["capacity"] = {"requests": self.capacity}
        return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def gpus_of(node: str) -> tuple[Gpu, ...]:
    """Return the eight GPUs of *node*."""
    return tuple(_gpu(node, index) for index in range(GPUS))


def ours(node: str, uid: str) -> tuple[JsonObject, ...]:
    """Return the slices that the agent of *node* publishes."""
    return _laid_out(_shared_devices(node), node, uid)


def slim(node: str, uid: str) -> tuple[JsonObject, ...]:
    """Return the same with three attributes instead of fourteen."""
    devices = copy.deepcopy(_shared_devices(node))
    for device in devices:
        device["attributes"] = {key: device["attributes"][key] for key in _KEPT}
    return _laid_out(devices, node, uid)


def whole(node: str, uid: str) -> tuple[JsonObject, ...]:
    """Return slices of devices as plain as those of Kubernetes' own measurements."""
    made = copy.deepcopy(_laid_out([_plain(gpu) for gpu in gpus_of(node)], node, uid))
    for each in made:
        each["spec"]["driver"] = WHOLE_DRIVER
    return made


def classes() -> list[JsonObject]:
    """Return the DeviceClass of the whole devices; ours come with the driver."""
    expression = f'device.driver == "{WHOLE_DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
    return [{**kind, "metadata": {"name": WHOLE_DRIVER}, "spec": spec}]


def _gpu(node: str, index: int) -> Gpu:
    return Gpu(
        uuid=GpuUuid(f"GPU-{uuid.uuid5(_UUIDS, f'{node}/{index}')}"),
        pci_bus_id=PciBusId(f"0000:{0x18 + 16 * index:02x}:00.0"),
        minor=index,
        name="NVIDIA H100 80GB HBM3",
        brand="NVIDIA",
        architecture="Hopper",
        memory_mib=81559,
        memory_reserved_mib=551,
        compute_capability="9.0",
        driver_version="580.65.06",
        cuda_driver_version="13.0",
        numa_node=index // 4,
        pcie_root=f"pci0000:{0x15 + 16 * index:02x}",
        mig_enabled=False,
        compute_mode=ComputeMode.DEFAULT,
    )


def _plain(gpu: Gpu) -> JsonObject:
    root = f"{gpu.minor:02}"
    texts = {
        "driver": "nvidia",
        "family": gpu.architecture,
        "health": "well",
        "model": gpu.name,
        "pciAddress": gpu.pci_bus_id,
        "pciId": "0x2330",
        "pciRoot": root,
        "example.com/pciRoot": root,
        names.ATTRIBUTE_PCI_BUS_ID: gpu.pci_bus_id,
        names.ATTRIBUTE_PCIE_ROOT: str(gpu.pcie_root),
        "type": "gpu",
    }
    attributes: JsonObject = {name: {"string": text} for name, text in texts.items()}
    attributes |= {"driverVersion": {"version": "580.65.6"}, "sriov": {"bool": True}}
    return {
        "name": names.device_name(gpu.uuid),
        "attributes": attributes,
        "capacity": {"memory": {"value": "81559Mi"}, "millicores": {"value": "1k"}},
    }


def _shared_devices(node: str) -> tuple[JsonObject, ...]:
    inventory = Inventory(
        driver_version="580.65.06", cuda_driver_version="13.0", gpus=gpus_of(node)
    )
    return build_devices(inventory, sharing_kept=True, policy=SharingPolicy()).devices


def _laid_out(devices: Sequence[JsonObject], node: str, uid: str) -> tuple[JsonObject, ...]:
    return build_slices(devices, node_name=node, node_uid=uid)


_ASKED: Final = {names.CAPACITY_MEMORY: "8Gi", names.CAPACITY_CORES: "10"}

WHOLE: Final = Shape(name="whole", slices=whole, device_class=WHOLE_DRIVER)
OURS: Final = Shape(name="share", slices=ours, device_class=names.CLASS_SHARE, capacity=_ASKED)
SLIM: Final = Shape(name="slim", slices=slim, device_class=names.CLASS_SHARE, capacity=_ASKED)
