"""Places of GPUs in the machine, read from fake sysfs trees."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import sysfs
from gpu.model import PciBusId

BUS_ID = PciBusId("0000:3b:00.0")


def device(root: Path, target: str, numa_node: str | None) -> None:
    """Make the device that *BUS_ID* links to."""
    directory = root / "devices" / target
    directory.mkdir(parents=True)
    if numa_node is not None:
        (directory / "numa_node").write_text(numa_node, encoding="ascii")
    link = root / "bus/pci/devices" / BUS_ID
    link.parent.mkdir(parents=True)
    link.symlink_to(Path("../../../devices") / target)


@given(
    domain=st.integers(0, 0xFFFFFFFF),
    bus=st.integers(0, 255),
    slot=st.integers(0, 31),
    function=st.integers(0, 7),
)
def test_both_spellings_of_a_bus_id_are_one(
    domain: int, bus: int, slot: int, function: int
) -> None:
    """NVML's form and sysfs' form become the form of sysfs."""
    expected = f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
    assert sysfs.pci_bus_id(f"{domain:08X}:{bus:02X}:{slot:02X}.{function}") == expected
    assert sysfs.pci_bus_id(expected) == expected


@pytest.mark.parametrize("text", ["", "3b:00.0", "0000:3b:00", "0000:3g:00.0", "0000:3b:00.8"])
def test_other_text_is_no_bus_id(text: str) -> None:
    """What is no bus id is refused by its text."""
    with pytest.raises(ValueError, match="not a PCI bus id"):
        sysfs.pci_bus_id(text)


def test_place_behind_bridges(tmp_path: Path) -> None:
    """The root is the first component of the path, however many bridges follow."""
    device(tmp_path, f"pci0000:3a/0000:3a:01.0/0000:3a:02.0/{BUS_ID}", "1\n")
    assert sysfs.pcie_root(BUS_ID, sysfs=tmp_path) == "pci0000:3a"
    assert sysfs.numa_node(BUS_ID, sysfs=tmp_path) == 1


@pytest.mark.parametrize("text", ["-1\n", "", "many", None])
def test_an_unknown_numa_node_is_none(tmp_path: Path, text: str | None) -> None:
    """Firmware that does not tell, and a file that cannot be read, give no node."""
    device(tmp_path, f"pci0000:00/{BUS_ID}", text)
    assert sysfs.numa_node(BUS_ID, sysfs=tmp_path) is None


def test_node_zero_is_a_node(tmp_path: Path) -> None:
    """Zero is not taken for unknown."""
    device(tmp_path, f"pci0000:00/{BUS_ID}", "0\n")
    assert sysfs.numa_node(BUS_ID, sysfs=tmp_path) == 0


def test_an_absent_device_has_no_place(tmp_path: Path) -> None:
    """A GPU that sysfs does not show has neither node nor root."""
    assert sysfs.numa_node(BUS_ID, sysfs=tmp_path) is None
    assert sysfs.pcie_root(BUS_ID, sysfs=tmp_path) is None


def test_a_device_without_a_pcie_root_has_none(tmp_path: Path) -> None:
    """A GPU on a platform bus is not said to share a root."""
    device(tmp_path, f"platform/{BUS_ID}", "0\n")
    assert sysfs.pcie_root(BUS_ID, sysfs=tmp_path) is None
