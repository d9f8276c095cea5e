"""XID events, through the real binding from simulated GPUs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from gpu.errors import NvmlError
from gpu.events import XidEvents
from gpu.health import XidEvent
from gpu.model import GpuUuid
from gpu.nvml import Nvml
from sim import gpufile, nvml

ABSENT = ("NOT_SUPPORTED", "FUNCTION_NOT_FOUND")
A, B = GpuUuid("GPU-a"), GpuUuid("GPU-b")


class Machine:
    """A node with two GPUs, of which one is partitioned, and a session with its driver."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._edits = 0
        self.has()
        nvml.install(path)
        self.session = Nvml().open()
        self.session.read()

    def has(self, node: str = "", *, a: str = "", b: str = "") -> None:
        """Change the node and its GPUs by these YAML fields."""
        mig = "mig: [{profile: 1g.6gb, uuid: MIG-a}]"
        gpus = f"{{profile: t4, uuid: GPU-a, {a}}}, {{profile: a30, uuid: GPU-b, {mig}, {b}}}"
        self._path.write_text(f"{{{node} gpus: [{gpus}]}}", encoding="utf-8")
        self._edits += 1
        os.utime(self._path, ns=(self._edits, self._edits))

    def events(self) -> XidEvents:
        """Return an event set with both GPUs."""
        events = self.session.events()
        assert [events.register(*each) for each in self.session.handles().items()] == [True, True]
        return events


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Lend a machine."""
    machine = Machine(tmp_path / "gpus.yaml")
    yield machine
    machine.session.close()
    nvml.uninstall()


def test_an_xid_has_its_gpu(machine: Machine) -> None:
    """Whole GPUs have no instance; after the events nothing comes."""
    events = machine.events()
    assert events.uuids == {A, B}
    machine.has(a="xids: [79]", b="xids: [48]")
    assert [events.wait(1.0) for _ in range(3)] == [
        XidEvent(gpu_uuid=A, xid=79),
        XidEvent(gpu_uuid=B, xid=48),
        None,
    ]
    events.close()


def test_an_xid_of_a_partition_has_its_instances(machine: Machine) -> None:
    """They are the ids that the inventory has of the MIG device."""
    (partitioned,) = [gpu for gpu in machine.session.read().inventory.gpus if gpu.uuid == B]
    (mig,) = partitioned.mig_devices
    events = machine.events()
    machine.has(b="xids: [{xid: 94, partition: MIG-a}]")
    assert events.wait(1.0) == XidEvent(
        gpu_uuid=B,
        xid=94,
        gpu_instance_id=mig.gpu_instance_id,
        compute_instance_id=mig.compute_instance_id,
    )


def test_a_gpu_that_falls_off_the_bus_is_still_named(machine: Machine) -> None:
    """Its handle is remembered, for it does not say any more who it is."""
    events = machine.events()
    machine.has(a="xids: [79], errors: {all: GPU_IS_LOST}")
    assert events.wait(1.0) == XidEvent(gpu_uuid=A, xid=79)


def test_a_gpu_that_was_forgotten_is_asked_for_its_name(machine: Machine) -> None:
    """And if it does not answer, the event is of nobody."""
    events = machine.events()
    events.forget(A)
    assert events.uuids == {B}
    machine.has(a="xids: [79]")
    assert events.wait(1.0) == XidEvent(gpu_uuid=A, xid=79)
    machine.has(a="xids: [79, 95], errors: {nvmlDeviceGetUUID: GPU_IS_LOST}")
    assert events.wait(1.0) == XidEvent(gpu_uuid=None, xid=95)


@pytest.mark.parametrize("reason", gpufile.REASONS)
@pytest.mark.parametrize("call", ["nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents"])
def test_a_registration_may_fail(machine: Machine, call: str, reason: str) -> None:
    """A GPU without events is no error; everything else is, and the other GPU is registered."""
    machine.has(a=f"errors: {{{call}: {reason}}}")
    events = machine.session.events()
    handles = machine.session.handles()
    if reason in ABSENT:
        assert events.register(A, handles[A]) is False
    else:
        with pytest.raises(NvmlError) as caught:
            events.register(A, handles[A])
        assert (caught.value.reason, caught.value.call) == (reason, call)
    assert events.register(B, handles[B])
    assert events.uuids == {B}


def test_a_gpu_without_xids_among_its_events_is_not_registered(machine: Machine) -> None:
    """An old GPU may report other things."""
    machine.has(a="reports_xids: false")
    events = machine.session.events()
    assert events.register(A, machine.session.handles()[A]) is False


@pytest.mark.parametrize("reason", [each for each in gpufile.REASONS if each != "TIMEOUT"])
def test_a_wait_may_fail(machine: Machine, reason: str) -> None:
    """Only that the time is over is no error."""
    events = machine.events()
    machine.has(f"errors: {{nvmlEventSetWait: {reason}}},")
    with pytest.raises(NvmlError) as caught:
        events.wait(1.0)
    assert caught.value.reason == reason
    machine.has("errors: {nvmlEventSetWait: TIMEOUT},")
    assert events.wait(1.0) is None


def test_an_event_of_another_kind_is_none(machine: Machine) -> None:
    """Only XIDs are asked for, but what comes is checked."""
    other = pynvml.c_nvmlEventData_t(eventType=pynvml.nvmlEventTypeDoubleBitEccError, eventData=79)
    events = XidEvents(machine.session.call, blocking_call=lambda *_arguments: other)
    assert events.wait(1.0) is None
