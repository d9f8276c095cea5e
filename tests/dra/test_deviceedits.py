"""Edits of a node's devices, found in the driver's files or by NVIDIA's generator."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cdi.edits import ContainerEdits
from cdi.errors import DelegateError
from cdi.hooks import NO_HOOKS
from dra.deviceedits import Delegation, Scan
from gpu import driver
from gpu.refusal import Refusal
from sim import driverroot, gpufile
from tests.dra.builders import a_gpu, a_mig_gpu, an_inventory

GENERATOR = """
import json, sys
ids = [word for flag, word in zip(sys.argv, sys.argv[1:]) if flag == "--device-id"]
node = {"path": "/dev/nvidia0", "major": 195}
devices = [{"name": id, "containerEdits": {"deviceNodes": [node]}} for id in ids]
json.dump({"cdiVersion": "0.5.0", "kind": "k8s.gpuslice.io/claim", "devices": devices,
           "containerEdits": {"env": ["BY=generator"]}}, sys.stdout)
"""


def driver_root(root: Path) -> driver.DriverRoot:
    """Write a driver with one GPU below *root* and find it."""
    driverroot.build(gpufile.parse("gpus: [{profile: l4}]"), root)
    return driver.find(host_root=root)


def scan(root: Path) -> Scan:
    """Return a scan of the tree below *root*."""
    return Scan(
        proc_root=root / "proc",
        sys_root=root / "sys",
        hooks=lambda _root: NO_HOOKS,
        device_numbers=driverroot.numbers_of,
    )


def test_a_scan_gives_each_gpu_its_node(tmp_path: Path) -> None:
    """What all devices need is apart from what one of them needs."""
    found, gpu = driver_root(tmp_path), a_gpu()
    version = found.library_path.name.removeprefix("libnvidia-ml.so.")
    inventory = replace(an_inventory(gpu), driver_version=version)
    edits = scan(tmp_path)(found, inventory)
    own = edits.by_uuid[gpu.uuid]
    assert isinstance(own, ContainerEdits)
    assert [node.path for node in own.device_nodes] == ["/dev/nvidia0"]
    assert "/dev/nvidiactl" in [node.path for node in edits.common.device_nodes]


def test_a_gpu_without_its_node_does_not_hide_the_others(tmp_path: Path) -> None:
    """It has a reason in the place of edits."""
    found, gpus = driver_root(tmp_path), (a_gpu(0), a_gpu(7))
    version = found.library_path.name.removeprefix("libnvidia-ml.so.")
    inventory = replace(an_inventory(*gpus), driver_version=version)
    edits = scan(tmp_path)(found, inventory)
    assert isinstance(edits.by_uuid[gpus[0].uuid], ContainerEdits)
    refusal = edits.by_uuid[gpus[1].uuid]
    assert isinstance(refusal, Refusal)
    assert refusal.code == "DeviceNodeMissing"


def test_the_generator_is_asked_for_every_device_that_is_offered(tmp_path: Path) -> None:
    """A GPU in MIG mode is left out, its MIG devices are not."""
    program = tmp_path / "ctk.py"
    program.write_text(GENERATOR)
    whole, split = a_gpu(0), a_mig_gpu(1)
    delegation = Delegation(command=(sys.executable, str(program)))
    edits = delegation(driver_root(tmp_path), an_inventory(whole, split))
    assert set(edits.by_uuid) == {whole.uuid, *(mig.uuid for mig in split.mig_devices)}
    assert edits.common.env == ("BY=generator",)


def test_a_generator_that_fails_is_told(tmp_path: Path) -> None:
    """The whole node waits for it, since its answer is for all devices."""
    program = tmp_path / "ctk.py"
    program.write_text(f"raise SystemExit({json.dumps('no driver')})")
    delegation = Delegation(command=(sys.executable, str(program)))
    with pytest.raises(DelegateError, match="no driver"):
        delegation(driver_root(tmp_path), an_inventory(a_gpu()))


def test_a_node_without_devices_needs_no_generator(tmp_path: Path) -> None:
    """The generator would fail for want of a device."""
    delegation = Delegation(command=(str(tmp_path / "none"),))
    assert delegation(driver_root(tmp_path), an_inventory()).by_uuid == {}
