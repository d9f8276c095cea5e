"""What ails GPUs, as the inventory's reader tells it, and the XIDs it hears of between looks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dra.reading import Machine, a_machine, one_gpu
from tests.patience import eventually


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Lend a machine without a driver yet."""
    with a_machine(tmp_path) as machine:
        yield machine


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
