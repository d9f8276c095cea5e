"""G20: how long it takes to explain a claim in a cluster of 1,000 nodes with 8 GPUs each.

Every GPU is nearly full, each with other amounts, so nothing can be said of two nodes at once. The
slices are those that the driver publishes. As in the command nothing is collected as garbage
meanwhile. The command as a whole, which starts, reads a dump and prints, is measured as well.
"""

import gc
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from dra.devices import SharingPolicy, build_devices
from gpu import names
from gpu.model import ComputeMode, Gpu, GpuUuid, Inventory, PciBusId
from kube.objects import ObjectKey
from sim.explain.explainer import explain_claim
from sim.explain.model import Explanation
from sim.explain.rules import Rules
from sim.explain.snapshot import snapshot_of
from tests.bench.figures import Goal, median, show

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

Json = dict[str, Any]
NODES: Final = 1000
GPUS: Final = 8
RUNS: Final = 5
NAMESPACE: Final = "bench"
CLAIM: Final = "want"
_MEMORY_MIB: Final = 81559
_SEED: Final = 20
_GOAL: Final = Goal(goal=2, floor=5)


def test_explain(tmp_path: Path) -> None:
    """Print the seconds for a claim that nearly fits, for one with a typo, and for reading."""
    items = _items()
    cases = {
        "nearly_fits": _want(names.CLASS_SHARE, "12000Mi"),
        "class_missing": _want("share.gpuslice.oi", "100Mi"),
        "fits": _want(names.CLASS_SHARE, "10Mi"),
    }
    for name, claim in cases.items():
        took_s = [_explain([*items, claim])[0] for _ in range(RUNS)]
        _, said = _explain([*items, claim])
        note = f"{RUNS} runs, {said.verdict}, {len(said.changes)} changes"
        show("G20", f"explain_{name}_s", median(took_s), _GOAL, note=note)
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": [*items, claim]}))
    took_s = [_command(tmp_path) for _ in range(RUNS)]
    megabytes = (tmp_path / "all.json").stat().st_size / 1e6
    show("G20", "command_s", median(took_s), note=f"{RUNS} runs, {megabytes:.0f} MB of JSON, fits")


def _command(folder: Path) -> float:
    words = ["explain", "claim", CLAIM, "-n", NAMESPACE, "--from", str(folder)]
    began = time.perf_counter()
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "cli.main", *words], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - began


def _explain(items: list[Json]) -> tuple[float, Explanation]:
    snapshot = snapshot_of(items)
    gc.collect()
    gc.disable()
    began = time.perf_counter()
    rules = Rules(release="1.37")
    said = explain_claim(snapshot, ObjectKey(NAMESPACE, CLAIM), rules=rules)
    took_s = time.perf_counter() - began
    gc.enable()
    return took_s, said


def _items() -> list[Json]:
    chance = random.Random(_SEED)  # noqa: S311 - amounts, no secrets
    items = [_class()]
    for number in range(NODES):
        name = f"node-{number:04}"
        devices = build_devices(
            _inventory(number), sharing_kept=True, policy=SharingPolicy()
        ).devices
        items += [{"kind": "Node", "metadata": {"name": name}}, _slice(name, list(devices))]
        items += [_held(name, device["name"], chance.randint(70000, 80000)) for device in devices]
    return items


def _inventory(node_number: int) -> Inventory:
    gpus = tuple(_gpu(node_number, index) for index in range(GPUS))
    return Inventory(driver_version="580.95.05", cuda_driver_version="13.0", gpus=gpus)


def _gpu(node_number: int, index: int) -> Gpu:
    return Gpu(
        uuid=GpuUuid(f"GPU-{node_number:08x}-0000-4000-8000-{index:012x}"),
        pci_bus_id=PciBusId(f"0000:{index + 1:02x}:00.0"),
        minor=index,
        name="NVIDIA H100 80GB HBM3",
        brand="Nvidia",
        architecture="Hopper",
        memory_mib=_MEMORY_MIB,
        memory_reserved_mib=0,
        compute_capability="9.0",
        driver_version="580.95.05",
        cuda_driver_version="13.0",
        numa_node=index // 4,
        pcie_root=f"pci0000:{index:02x}",
        mig_enabled=False,
        compute_mode=ComputeMode.DEFAULT,
    )


def _slice(node_name: str, devices: list[Json]) -> Json:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": names.DRIVER, "nodeName": node_name, "pool": pool, "devices": devices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpuslice", "resourceVersion": "1"},
        "spec": spec,
    }


def _held(node_name: str, device: str, memory_mib: int) -> Json:
    name = f"claim-{node_name}-{device}"
    result = {
        "request": "gpu",
        "driver": names.DRIVER,
        "pool": node_name,
        "device": device,
        "shareID": name,
        "consumedCapacity": {"memory": f"{memory_mib}Mi", "cores": "30", "shares": "1"},
    }
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": f"pod-{device}", "uid": name}],
    }
    return {**_claim(name, names.CLASS_SHARE, f"{memory_mib}Mi"), "status": status}


def _want(class_name: str, memory: str) -> Json:
    return _claim(CLAIM, class_name, memory)


def _claim(name: str, class_name: str, memory: str) -> Json:
    exactly = {"deviceClassName": class_name, "capacity": {"requests": {"memory": memory}}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def _class() -> Json:
    expression = (
        'device.driver == "gpuslice.io" && device.attributes["gpuslice.io"].mode == "shared"'
    )
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": names.CLASS_SHARE},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
