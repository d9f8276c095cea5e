"""Waiting for XIDs between readings, on simulated GPUs through NVML's binding."""

from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from gpu.xids import XidPolicy, XidSet
from sim import nvml
from tests.dra.watching import Machine, watched


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Lend a machine."""
    with watched(tmp_path / "gpus.yaml") as machine:
        yield machine


def test_an_xid_makes_a_gpu_ill_until_it_is_over(machine: Machine) -> None:
    """The XID, the illness and the recovery are each said once."""
    assert machine.read() == []
    assert not machine.wait()
    machine.has(a="xids: [79]")
    assert machine.wait(0.5)
    assert machine.read() == machine.read() == [("GPU-a", "Xid79")]
    machine.clock.now_s = 59.0
    assert machine.read() == [("GPU-a", "Xid79")]
    machine.clock.now_s = 60.0
    assert machine.read() == []
    assert machine.said("gpu xid seen") == [
        {
            "uuid": "GPU-a",
            "gpu_instance": None,
            "xid": 79,
            "meaning": "the GPU has fallen off the bus",
            "critical": True,
            "unsaid": 0,
        }
    ]
    assert machine.said("gpu ailing") == [
        {"uuid": "GPU-a", "code": "Xid79", "reason": "XID 79: the GPU has fallen off the bus"}
    ]
    assert machine.said("gpu recovered") == [{"uuid": "GPU-a", "code": "Xid79"}]


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109, 94, 63])
def test_an_ignored_xid_changes_nothing(machine: Machine, xid: int) -> None:
    """It is said, and the GPUs are not even read because of it."""
    machine.read()
    machine.has(a=f"xids: [{xid}]")
    assert not machine.wait(0.5)
    assert machine.read() == []
    assert [each["critical"] for each in machine.said("gpu xid seen")] == [False]


def test_changed_advice_is_read_at_once(machine: Machine) -> None:
    """XID 154 announces it; the XID by itself ails nobody, neither on the way down nor up."""
    machine.read()
    machine.has(a="xids: [154], recovery_action: gpu-reset")
    assert machine.wait(0.5)
    assert machine.read() == [("GPU-a", "GpuResetNeeded")]
    machine.has(a="xids: [154, 154]")
    assert machine.wait(0.5)
    assert machine.read() == []


def test_an_administrator_decides_what_counts(tmp_path: Path) -> None:
    """An ignored XID can be made to count, and one that counts to be ignored."""
    policy = XidPolicy(ignored=XidSet.parse(["79"]), critical=XidSet.parse(["13"]))
    machine = Machine(tmp_path / "gpus.yaml", policy)
    machine.read()
    machine.has(a="xids: [79, 13]")
    assert [machine.wait(0.5) for _ in range(2)] == [False, True]
    assert machine.read() == [("GPU-a", "Xid13")]
    nvml.uninstall()


def test_without_any_xid_that_counts_none_is_asked_for(tmp_path: Path) -> None:
    """The driver is left alone with it; what it advises still counts."""
    machine = Machine(tmp_path / "gpus.yaml", XidPolicy(ignored=XidSet.parse(["all"])))
    assert machine.read() == []
    assert machine.watched() == set()
    machine.has(a="xids: [79], recovery_action: node-reboot")
    assert not machine.wait(0.1)
    assert machine.read() == [("GPU-a", "NodeRebootNeeded")]
    nvml.uninstall()


def test_an_xid_in_an_endless_loop_does_not_fill_the_log(machine: Machine) -> None:
    """It is said again after a minute, with how often it came meanwhile."""
    machine.read()
    for count in range(1, 5):
        machine.has(a=f"xids: {[13] * count}", b=f"xids: {[13] * count}")
        machine.wait(0.5)
        machine.wait(0.5)
    assert [each["uuid"] for each in machine.said("gpu xid seen")] == ["GPU-a", "GPU-b"]
    machine.clock.now_s = 60.0
    machine.has(a=f"xids: {[13] * 5}")
    machine.wait(0.5)
    assert [each["unsaid"] for each in machine.said("gpu xid seen")] == [3]


def test_an_xid_of_an_unknown_gpu_has_the_gpus_read(machine: Machine) -> None:
    """Nobody is called ill, for nobody knows who it is; a lost GPU is found that way."""
    machine.has(a="errors: {nvmlDeviceGetUUID: GPU_IS_LOST}")
    machine.read()
    events = machine.watch._session.events
    assert events is not None
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events._set)
    machine.has(a="xids: [79], errors: {nvmlDeviceGetUUID: GPU_IS_LOST}")
    assert machine.wait(0.5)
    assert machine.read() == []
    assert [each["uuid"] for each in machine.said("gpu xid seen")] == ["unknown"]


def test_forgetting_ends_all_xids(machine: Machine) -> None:
    """Who was ill before is well then, unless the driver says otherwise."""
    machine.read()
    machine.has(a="xids: [79]", b="xids: [79], recovery_action: bus-reset")
    machine.wait(0.5)
    machine.wait(0.5)
    machine.read()
    machine.watch.forget()
    assert machine.read() == [("GPU-b", "BusResetNeeded")]
    assert machine.said("gpu recovered") == [
        {"uuid": "GPU-a", "code": "Xid79"},
        {"uuid": "GPU-b", "code": "Xid79"},
    ]
