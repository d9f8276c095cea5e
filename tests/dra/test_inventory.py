"""Reading a node through NVML's binding and a driver's files."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from cdi.hooks import NO_HOOKS
from cdi.library import LibraryStore, make_placeholder
from dra.deviceedits import Scan
from dra.inventory import InventoryReader, LibrarySource
from dra.node import NodeState
from gpu import driver, names
from gpu.errors import DriverNotFoundError, StoppedError
from gpu.model import Ailment, Inventory
from sim import driverroot, gpufile, nvml
from sim.driverroot import numbers_of
from tests.patience import eventually

TWO_GPUS = "gpus: [{profile: l4, count: 2}]"


@dataclass(slots=True)
class Machine:
    """A host with a simulated driver, and what reads it."""

    root: Path
    accept_placeholder: bool = True
    seen: list[Inventory] = field(default_factory=list)
    failures: list[Ailment] = field(default_factory=list)
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
            failed=self.failures.append,
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

    def ailments(self) -> list[tuple[str, str]]:
        """Return what was said last of what ails which device."""
        return [(each.uuid, each.code) for each in self.seen[-1].ailments]

    @contextmanager
    def reading(self, interval_s: float = 3600.0) -> Iterator[threading.Event]:
        """Run the reader in its thread; give what stops it, and stop it at the end."""
        stop = threading.Event()
        thread = threading.Thread(
            target=self.reader.run, args=(stop,), kwargs={"interval_s": interval_s}
        )
        thread.start()
        try:
            yield stop
        finally:
            stop.set()
            thread.join()


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


def one_gpu(more: str = "", node: str = "") -> str:
    """Return a node with one GPU that has a name."""
    return f"{{{node} gpus: [{{profile: l4, uuid: GPU-a, {more}}}]}}"


def test_an_illness_alone_changes_no_edits(machine: Machine) -> None:
    """It is told, and calls see it, but the driver's files are not walked for it."""
    machine.has(one_gpu())
    machine.reader.read()
    before = machine.state.current(wait_s=0)
    machine.has(one_gpu("recovery_action: gpu-reset"))
    machine.reader.read()
    machine.reader.read()
    after = machine.state.current(wait_s=0)
    assert machine.ailments() == [("GPU-a", "GpuResetNeeded")]
    assert len(machine.seen) == 2
    assert after.inventory == machine.seen[-1]
    assert after.renderer is before.renderer
    machine.has(one_gpu())
    machine.reader.read()
    assert machine.seen[-1] == machine.seen[0]
    assert machine.state.current(wait_s=0).renderer is before.renderer


def test_an_illness_and_another_change_come_together(machine: Machine) -> None:
    """What else changed is not hidden by it."""
    machine.has(one_gpu())
    machine.reader.read()
    before = machine.state.current(wait_s=0)
    machine.has("gpus: [{profile: l4, uuid: GPU-a, recovery_action: bus-reset}, {profile: t4}]")
    machine.reader.read()
    assert len(machine.state.current(wait_s=0).devices) == 2
    assert machine.state.current(wait_s=0).renderer is not before.renderer


def test_an_xid_is_known_long_before_the_next_look(machine: Machine) -> None:
    """The thread waits for XIDs in between; one that is ignored changes nothing."""
    machine.has(one_gpu("xids: [48]"))
    with machine.reading():
        eventually(lambda: machine.seen)
        assert machine.ailments() == []
        machine.has(one_gpu("xids: [48, 13, 79]"))
        eventually(lambda: machine.ailments() == [("GPU-a", "Xid79")])
        machine.has(one_gpu("xids: [48, 13, 79, 95]"))
        eventually(lambda: machine.ailments() == [("GPU-a", "Xid79"), ("GPU-a", "Xid95")])
    assert len(machine.seen) == 3


def test_an_xid_of_a_partition_ails_that_partition(machine: Machine) -> None:
    """The other one goes on."""
    node = "profile: a30, mig: [{profile: 1g.6gb, uuid: MIG-a}, {profile: 1g.6gb, uuid: MIG-b}]"
    machine.has(f"gpus: [{{{node}}}]")
    with machine.reading():
        eventually(lambda: machine.seen)
        machine.has(f"gpus: [{{{node}, xids: [{{xid: 48, partition: MIG-b}}]}}]")
        eventually(lambda: machine.ailments() == [("MIG-b", "Xid48")])


def test_xids_come_again_after_the_driver_did(machine: Machine) -> None:
    """A new session has its GPUs registered; what was before the reload is forgotten."""
    machine.has(one_gpu())
    with machine.reading(0.05):
        eventually(lambda: machine.seen)
        machine.has(one_gpu("xids: [79], recovery_action: null"))
        eventually(lambda: machine.ailments() == [("GPU-a", "Xid79")])
        machine.has(one_gpu("recovery_action: null", "errors: {all: DRIVER_NOT_LOADED},"))
        eventually(machine.state.problem)
        machine.has(one_gpu("recovery_action: null"))
        eventually(lambda: machine.ailments() == [])
        machine.has(one_gpu("recovery_action: null, xids: [95]"))
        eventually(lambda: machine.ailments() == [("GPU-a", "Xid95")])


@pytest.mark.parametrize(
    ("reason", "is_forgotten"),
    [("DRIVER_NOT_LOADED", True), ("LIB_RM_VERSION_MISMATCH", True), ("UNKNOWN", False)],
)
def test_only_a_driver_that_was_away_takes_xids_with_it(
    machine: Machine,
    reason: str,
    is_forgotten: bool,  # noqa: FBT001
) -> None:
    """A session that merely failed says nothing about the GPUs."""
    machine.has(one_gpu("recovery_action: null"))
    with machine.reading():
        eventually(lambda: machine.seen)
        machine.has(one_gpu("recovery_action: null, xids: [79]"))
        eventually(lambda: machine.ailments() == [("GPU-a", "Xid79")])
    machine.has(one_gpu("recovery_action: null", f"errors: {{nvmlInitWithFlags: {reason}}},"))
    reader = machine.reader
    reader._stop = None
    reader.read()
    assert reason in str(machine.state.problem())
    machine.has(one_gpu("recovery_action: null"))
    reader.read()
    assert machine.ailments() == ([] if is_forgotten else [("GPU-a", "Xid79")])


def test_an_inventory_that_fails_is_told_with_the_reason(machine: Machine) -> None:
    """Once for each reason, with a code and a message that fit into a taint and a condition."""
    machine.reader.read()
    machine.reader.read()
    machine.has(one_gpu(node="errors: {nvmlInitWithFlags: DRIVER_NOT_LOADED},"))
    machine.reader.read()
    machine.has(one_gpu(node="errors: {nvmlDeviceGetCount: UNKNOWN},"))
    machine.reader.read()
    assert [each.code for each in machine.failures] == [
        *("DriverNotFound", "DriverNotLoaded", "Unknown")
    ]
    assert all(each.message.isascii() and len(each.message) <= 200 for each in machine.failures)
    assert machine.failures[1].message == "nvmlInitWithFlags failed: DRIVER_NOT_LOADED"


def open_sessions() -> int:
    """Return how many sessions the simulated library has open."""
    return int(pynvml.nvmlLib.node.sessions)


def test_the_session_ends_with_the_thread(machine: Machine) -> None:
    """Also while it waits for XIDs; the library has no session and no event set then."""
    machine.has(TWO_GPUS)
    with capture_logs() as logged, machine.reading():
        eventually(lambda: machine.seen)
        assert open_sessions() == 1
    assert open_sessions() == 0
    assert pynvml.nvmlLib._events._sets == {}
    assert logged[-1]["event"] == "nvml session closed"


def test_a_look_that_is_under_way_ends_early(machine: Machine) -> None:
    """With a driver that is slow, a whole look may take far longer than the agent has."""
    machine.has("{delays_s: {nvmlDeviceGetName: 0.2}, gpus: [{profile: l4, count: 200}]}")
    with machine.reading() as stop:
        eventually(lambda: open_sessions() == 1)
        stop.set()
    assert machine.seen == []
    assert machine.failures == []
    assert open_sessions() == 0


def test_a_lost_gpu_is_named_by_its_place(machine: Machine) -> None:
    """So that the device which is published for it can be marked."""
    machine.has("gpus: [{profile: l4, uuid: GPU-a}, {profile: l4, uuid: GPU-b}]")
    machine.reader.read()
    machine.has(
        "gpus: [{profile: l4, uuid: GPU-a, errors: {all: GPU_IS_LOST}}, "
        "{profile: l4, uuid: GPU-b, errors: {all: GPU_IS_LOST}}]"
    )
    machine.reader.read()
    assert [fault.uuid for fault in machine.seen[-1].faults] == ["GPU-a", "GPU-b"]


def test_giving_up_on_a_driver_is_no_failure_of_it(machine: Machine) -> None:
    """An agent that ends while it looks for the driver says nothing about the GPUs."""
    with machine.reading() as stop:
        eventually(lambda: machine.failures)

        def locate() -> driver.DriverRoot:
            stop.set()
            raise DriverNotFoundError([])

        machine.failures.clear()
        machine.reader._problem = ""
        machine.reader._locate = locate
        with pytest.raises(StoppedError):
            machine.reader.read()
    assert machine.failures == []
