"""The fake host tree, read as the real one is read."""

import os
import platform
import stat
from pathlib import Path

from gpu import driver, sysfs
from sim import driverroot, gpufile
from sim.driverroot import FakeHost, cap_minor, numbers_of

NODE = """
driver: {version: 580.95.05}
gpus:
- {profile: a100-80gb, pci: "0000:3b:00.0", minor: 3, pcie_root: "pci0000:3a", numa_node: 1,
   mig: [3g.40gb, 1g.10gb]}
- {profile: t4, pci: "0000:86:00.0", minor: 0, numa_node: -1}
"""


def host(root: Path, text: str = NODE) -> FakeHost:
    """Build the tree for *text*."""
    return driverroot.build(gpufile.parse(text), root)


def test_the_driver_search_finds_it(tmp_path: Path) -> None:
    """The tree holds a driver where an operator's container has it, labelled as a placeholder."""
    built = host(tmp_path)
    found = driver.find(host_root=tmp_path)
    assert (found.host_path, found.host_dev_path) == (built.driver_root, built.dev_root)
    assert found.library_path.name == "libnvidia-ml.so.580.95.05"
    assert found.library_dir.name == f"{platform.machine()}-linux-gnu"
    assert "placeholder" in found.library_path.read_text(encoding="utf-8")
    assert (found.library_dir / "libcuda.so").resolve().name == "libcuda.so.580.95.05"
    program = found.local_path / "usr/bin/nvidia-smi"
    assert os.access(program, os.X_OK)
    assert "placeholder" in program.read_text(encoding="utf-8")


def test_sysfs_shows_the_gpus(tmp_path: Path) -> None:
    """Roots and nodes are the file's; an unknown node is unknown."""
    tree = host(tmp_path).sysfs
    first, second = sysfs.pci_bus_id("0000:3b:00.0"), sysfs.pci_bus_id("0000:86:00.0")
    assert sysfs.pcie_root(first, sysfs=tree) == "pci0000:3a"
    assert sysfs.numa_node(first, sysfs=tree) == 1
    assert sysfs.numa_node(second, sysfs=tree) is None


def test_every_node_has_its_numbers(tmp_path: Path) -> None:
    """Each node exists with the numbers told, and is a device wherever that is claimed."""
    built = host(tmp_path)
    assert built.numbers[tmp_path / "dev/nvidia3"] == (driverroot.MAJOR_NVIDIA, 3)
    assert built.numbers[tmp_path / "dev/nvidiactl"] == (driverroot.MAJOR_NVIDIA, 255)
    assert tmp_path / "dev/nvidia1" not in built.numbers
    # None of the GPUs' own, but there to be mounted.
    assert driverroot.numbers_of(tmp_path / "dev/null") == (1, 3)
    for path, numbers in built.numbers.items():
        assert numbers_of(path) == numbers
        assert stat.S_ISCHR(path.stat().st_mode) or not built.real_devices


def test_a_file_can_stand_for_a_node(tmp_path: Path) -> None:
    """Where nodes cannot be made, a file says its numbers; any other file has none."""
    node, other = tmp_path / "nvidia0", tmp_path / "other"
    driverroot._write_stand_in(node, (195, 7))
    other.write_text("195:7", encoding="utf-8")
    assert numbers_of(node) == (195, 7)
    assert numbers_of(other) is None
    assert numbers_of(tmp_path / "absent") is None


def test_mig_capabilities_agree_everywhere(tmp_path: Path) -> None:
    """Access files, the list of minors, majors and nodes say the same about a partition."""
    built = host(tmp_path)
    capabilities = built.proc / "driver/nvidia/capabilities/gpu3/mig"
    access = sorted(path.relative_to(capabilities) for path in capabilities.rglob("access"))
    assert len(access) == 4
    listed = (built.proc / "driver/nvidia-caps/mig-minors").read_text(encoding="ascii")
    devices = (built.proc / "devices").read_text(encoding="ascii")
    assert f"{driverroot.MAJOR_CAPS} nvidia-caps\n" in devices.partition("Block devices:")[0]
    for path in access:
        told = dict(
            line.split(": ")
            for line in (capabilities / path).read_text(encoding="ascii").splitlines()
        )
        minor = int(told["DeviceFileMinor"])
        assert int(told["DeviceFileMode"]) == 0o444
        assert f"gpu3/{path} {minor}\n" in listed
        node = tmp_path / f"dev/nvidia-caps/nvidia-cap{minor}"
        assert numbers_of(node) == (driverroot.MAJOR_CAPS, minor)


def test_capabilities_are_numbered_as_the_driver_does() -> None:
    """Known lines of a real list: GPU 0's gi0 is 3, its gi1 is 12, GPU 1 begins at 138."""
    assert cap_minor(gpu_minor=0, gpu_instance=0) == 3
    assert cap_minor(gpu_minor=0, gpu_instance=0, compute_instance=0) == 4
    assert cap_minor(gpu_minor=0, gpu_instance=1) == 12
    assert cap_minor(gpu_minor=1, gpu_instance=0) == 138


def test_a_changed_node_changes_the_tree(tmp_path: Path) -> None:
    """Building again follows a driver update, a removed GPU and new partitions."""
    before = host(tmp_path)
    after = host(
        tmp_path,
        "{driver: {version: '590.1'}, gpus: [{profile: a100-80gb, minor: 3, mig: [7g.80gb]}]}",
    )
    for stale in before.numbers.keys() - after.numbers.keys():
        assert not stale.exists()
    assert driver.find(host_root=tmp_path).library_path.name == "libnvidia-ml.so.590.1"
    capabilities = after.proc / "driver/nvidia/capabilities"
    names = sorted(str(path.relative_to(capabilities)) for path in capabilities.rglob("access"))
    assert names == ["gpu3/mig/gi0/access", "gpu3/mig/gi0/ci0/access"]
    devices = after.sysfs / "bus/pci/devices"
    assert [path.name for path in devices.iterdir()] == ["0000:01:00.0"]


def test_a_host_driver_lies_in_the_root(tmp_path: Path) -> None:
    """The driver can be the host's own, with its nodes elsewhere."""
    built = driverroot.build(gpufile.parse(NODE), tmp_path, driver_root="/", dev_root="/opt/nodes")
    assert driver.find(host_root=tmp_path).host_path == "/"
    assert tmp_path / "opt/nodes/dev/nvidia0" in built.numbers
