"""Reading a node through NVML's binding and a driver's files."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cdi.compatibility import manifest_path
from cdi.elf import machine_of
from cdi.library import make_placeholder
from gpu import names
from sim import nvml
from tests.cdi.elves import shared_object
from tests.dra.reading import TWO_GPUS, Machine, a_machine, one_gpu


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Lend a machine without a driver yet."""
    with a_machine(tmp_path) as machine:
        yield machine


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
    assert machine.asked == [2, 3]


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


def test_a_library_that_does_not_fit_is_not_used(machine: Machine) -> None:
    """By its manifest, against this driver; a manifest that fits again is noticed too."""
    machine.has(TWO_GPUS)
    content = machine.library.read_bytes()
    document = {
        "format": 1,
        "sha256": hashlib.sha256(content).hexdigest(),
        "version": "own",
        "regionLayout": "v1.2",
        "needsLockDirectory": False,
        "architecture": machine_of(content),
    }
    beside = manifest_path(machine.library)
    beside.write_text(json.dumps({**document, "cuda": {"minimum": "99.0"}}))
    machine.reader.read()
    view = machine.state.current(wait_s=0)
    assert view.library is None
    assert "LibraryDoesNotFit: manifest.cuda" in view.library_problem
    beside.write_text(json.dumps({**document, "sha256": "0" * 64}))
    machine.reader.read()
    assert "LibraryManifestOfAnother" in machine.state.current(wait_s=0).library_problem
    beside.write_text(json.dumps(document))
    machine.reader.read()
    assert machine.state.current(wait_s=0).library is not None


def test_a_library_without_a_manifest_is_told_once(machine: Machine) -> None:
    """It is used as its release needs, or as is usual; a placeholder is nothing to be judged."""
    machine.has(TWO_GPUS)
    with capture_logs() as logs:
        machine.reader.read()
        machine.library.write_bytes(shared_object())
        machine.reader.read()
        machine.reader.read()
    said = [each for each in logs if each["event"] == "library used without a manifest"]
    assert [(each["release"], each["assumed"]) for each in said] == [(None, True)]
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
