"""Reading a node through NVML's binding and a driver's files."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cdi.hooks import NO_HOOKS
from cdi.library import LibraryStore, make_placeholder
from dra.deviceedits import Scan
from dra.inventory import InventoryReader, LibrarySource
from dra.node import NodeState
from gpu import driver, names
from gpu.model import Inventory
from sim import driverroot, gpufile, nvml
from sim.driverroot import numbers_of

TWO_GPUS = "gpus: [{profile: l4, count: 2}]"


@dataclass(slots=True)
class Machine:
    """A host with a simulated driver, and what reads it."""

    root: Path
    accept_placeholder: bool = True
    seen: list[Inventory] = field(default_factory=list)
    state: NodeState = field(default_factory=NodeState)
    edits: int = 0
    reader: InventoryReader = field(init=False)

    def __post_init__(self) -> None:
        make_placeholder(self.library)
        self.reader = InventoryReader(
            sysfs=self.root / "sys",
            locate=lambda: driver.find("/run/nvidia/driver", host_root=self.root),
            edits=Scan(
                proc_root=self.root / "proc",
                sys_root=self.root / "sys",
                hooks=lambda _root: NO_HOOKS,
                device_numbers=numbers_of,
            ),
            library=LibrarySource(
                path=self.library,
                kept=LibraryStore(self.root / "libraries", "/host/libraries"),
                accept_placeholder=self.accept_placeholder,
            ),
            region_host_path=lambda uid: f"/host/regions/{uid}",
            node=self.state,
            changed=self.seen.append,
        )

    @property
    def library(self) -> Path:
        """The library that the administrator provides."""
        return self.root / "libvgpu.so"

    def has(self, text: str) -> None:
        """Give the machine the GPUs that *text* describes."""
        path = self.root / "gpus.yaml"
        path.write_text(text)
        self.edits += 1
        os.utime(path, ns=(self.edits, self.edits))
        driverroot.build(gpufile.load(path), self.root)
        if self.edits == 1:
            nvml.install(path)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Lend a machine without a driver yet."""
    machine = Machine(tmp_path)
    yield machine
    machine.reader.close()
    nvml.uninstall()


def test_a_node_without_driver_says_which_places_were_tried(machine: Machine) -> None:
    """It may be installed later; then the node is read."""
    machine.reader.read()
    assert "/run/nvidia/driver" in str(machine.state.problem())
    assert machine.seen == []
    machine.has(TWO_GPUS)
    machine.reader.read()
    assert machine.state.problem() is None
    assert [len(inventory.gpus) for inventory in machine.seen] == [2]


def test_a_view_knows_devices_and_their_nodes(machine: Machine) -> None:
    """Each GPU by its published name, with a renderer for it."""
    machine.has(TWO_GPUS)
    machine.reader.read()
    view = machine.state.current(wait_s=0)
    assert set(view.devices) == {names.device_name(gpu.uuid) for gpu in view.inventory.gpus}
    assert view.library is not None
    assert view.library.placeholder


def test_nothing_is_told_while_nothing_changes(machine: Machine) -> None:
    """Walking the driver's files again would cost each node for nothing."""
    machine.has(TWO_GPUS)
    machine.reader.read()
    view = machine.state.current(wait_s=0)
    machine.reader.read()
    assert machine.state.current(wait_s=0) is view
    assert len(machine.seen) == 1
    machine.has("gpus: [{profile: l4, count: 3}]")
    machine.reader.read()
    assert [len(inventory.gpus) for inventory in machine.seen] == [2, 3]


def test_one_bad_gpu_does_not_hide_the_other(machine: Machine) -> None:
    """It is a fault with a reason."""
    machine.has("gpus: [{profile: l4}, {profile: l4, errors: {nvmlDeviceGetUUID: GPU_IS_LOST}}]")
    machine.reader.read()
    (inventory,) = machine.seen
    assert (len(inventory.gpus), len(inventory.faults)) == (1, 1)


def test_a_placeholder_is_taken_only_when_allowed(tmp_path: Path) -> None:
    """It enforces nothing, so shares are refused with that reason."""
    machine = Machine(tmp_path, accept_placeholder=False)
    machine.has(TWO_GPUS)
    machine.reader.read()
    view = machine.state.current(wait_s=0)
    assert view.library is None
    assert "placeholder that enforces nothing" in view.library_problem
    machine.reader.close()
    nvml.uninstall()


def test_a_library_that_appears_or_goes_is_noticed(machine: Machine) -> None:
    """Without a restart, and the reason is known meanwhile."""
    machine.has(TWO_GPUS)
    machine.library.unlink()
    machine.reader.read()
    assert "EnforcementLibraryMissing" in machine.state.current(wait_s=0).library_problem
    make_placeholder(machine.library)
    machine.reader.read()
    assert machine.state.current(wait_s=0).library is not None


def test_a_driver_that_goes_and_returns_is_read_anew(machine: Machine) -> None:
    """Even when it looks the same, its files may lie elsewhere."""
    machine.has(TWO_GPUS)
    machine.reader.read()
    before = machine.state.current(wait_s=0)
    machine.has(f"{TWO_GPUS}\nerrors: {{nvmlDeviceGetCount_v2: UNINITIALIZED}}")
    machine.reader.read()
    assert machine.state.current(wait_s=0) is before
    assert "UNINITIALIZED" in str(machine.state.problem()).upper()
    machine.has(TWO_GPUS)
    machine.reader.read()
    assert machine.state.current(wait_s=0) is not before
    assert machine.state.current(wait_s=0).inventory == before.inventory
