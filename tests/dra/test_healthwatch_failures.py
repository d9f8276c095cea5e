"""XIDs that GPUs or drivers do not report, and registrations and waits that fail."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim import gpufile
from tests.dra.watching import Machine, watched


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Lend a machine."""
    with watched(tmp_path / "gpus.yaml") as machine:
        yield machine


@pytest.mark.parametrize(
    "broken",
    [
        "reports_xids: false",
        "errors: {nvmlDeviceGetSupportedEventTypes: NOT_SUPPORTED}",
        "errors: {nvmlDeviceRegisterEvents: NOT_SUPPORTED}",
    ],
)
def test_a_gpu_without_events_is_no_error(machine: Machine, broken: str) -> None:
    """It is said once, the other GPU is watched, and both are well."""
    machine.has(a=broken)
    assert machine.read() == machine.read() == []
    assert machine.watched() == {"GPU-b"}
    assert machine.said("gpu reports no xids") == [{"uuid": "GPU-a"}]
    assert machine.said("gpu xids not registered") == []


@pytest.mark.parametrize(
    "reason",
    [each for each in gpufile.REASONS if each not in {"NOT_SUPPORTED", "FUNCTION_NOT_FOUND"}],
)
@pytest.mark.parametrize("call", ["nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents"])
def test_a_failed_registration_costs_no_other_gpu(machine: Machine, call: str, reason: str) -> None:
    """It is said once and tried again with each reading; after `UNKNOWN` in another set."""
    machine.has(a=f"errors: {{{call}: {reason}}}")
    assert machine.read() == machine.read() == []
    assert machine.watched() == {"GPU-b"}
    assert machine.said("gpu xids not registered") == [
        {"uuid": "GPU-a", "reason": f"{call} failed: {reason}"}
    ]
    machine.has()
    machine.read()
    assert machine.watched() == ({"GPU-b"} if reason == "UNKNOWN" else {"GPU-a", "GPU-b"})
    machine.has(b="xids: [79]")
    machine.wait(0.5)
    assert machine.read() == [("GPU-b", "Xid79")]


@pytest.mark.parametrize(
    "node",
    [
        "missing: [nvmlEventSetCreate]",
        "missing: [nvmlEventSetWait_v2]",
        "errors: {nvmlEventSetCreate: NOT_SUPPORTED}",
        "errors: {nvmlEventSetWait: NOT_SUPPORTED}",
    ],
)
def test_a_driver_without_events_is_no_error(machine: Machine, node: str) -> None:
    """It is said once, and nothing is asked again in this session."""
    machine.has(node)
    machine.read()
    machine.wait()
    machine.read()
    machine.wait()
    assert len(machine.said("driver reports no xids")) == 1
    machine.has()
    machine.read()
    assert machine.watched() == set()
    machine.watch.end_session()
    machine.read()
    assert machine.watched() == {"GPU-a", "GPU-b"}


@pytest.mark.parametrize(
    "reason",
    [
        each
        for each in gpufile.REASONS
        if each not in {"NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "TIMEOUT"}
    ],
)
def test_a_failed_wait_is_tried_again_ever_more_rarely(machine: Machine, reason: str) -> None:
    """Each failure has the GPUs read again; after the first, that waits for its time."""
    machine.read()
    machine.has(f"errors: {{nvmlEventSetWait: {reason}}}")
    pauses = []
    for _ in range(9):
        assert machine.wait(0.5)
        (said,) = machine.said("xids not received")
        assert said["reason"] == f"nvmlEventSetWait_v2 failed: {reason}"
        pauses.append(said["retry_in_s"])
        if said["retry_in_s"] > 0:
            machine.clock.now_s += said["retry_in_s"] / 2
            machine.read()
            assert machine.watched() == set()
            assert not machine.wait()
            machine.clock.now_s += said["retry_in_s"] / 2
            assert machine.wait()
        machine.read()
        assert machine.watched() == {"GPU-a", "GPU-b"}
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    machine.has()
    assert not machine.wait()
    machine.has(f"errors: {{nvmlEventSetWait: {reason}}}")
    assert machine.wait()
    assert [said["retry_in_s"] for said in machine.said("xids not received")] == [0]


def test_an_event_set_that_cannot_be_made_is_tried_again(machine: Machine) -> None:
    """The same as for a failed wait."""
    machine.has("errors: {nvmlEventSetCreate: UNKNOWN}")
    machine.read()
    assert machine.wait()
    machine.has()
    machine.read()
    assert machine.watched() == {"GPU-a", "GPU-b"}
    assert not machine.wait()


def test_a_lost_gpu_is_registered_anew_when_it_is_back(machine: Machine) -> None:
    """Its registration ended with it; the others keep theirs, so none of their XIDs is missed."""
    machine.read()
    before = machine.watch._session.events
    machine.has(a="errors: {all: GPU_IS_LOST}")
    machine.read()
    assert machine.watched() == {"GPU-b"}
    machine.has(b="xids: [48]")
    machine.read()
    assert machine.watched() == {"GPU-a", "GPU-b"}
    assert machine.watch._session.events is before
    machine.wait(0.5)
    assert machine.read() == [("GPU-b", "Xid48")]


def test_a_wait_that_ends_too_early_does_not_spin(machine: Machine) -> None:
    """NVML may say that the time is over when it is not."""
    machine.read()
    machine.has("errors: {nvmlEventSetWait: TIMEOUT}")
    asked: list[float] = []

    class Stop(threading.Event):
        """Notes how long it is waited for."""

        def wait(self, timeout: float | None = None) -> bool:
            asked.append(timeout or 0.0)
            return True

    assert not machine.watch.wait(Stop(), 0.4)
    assert asked == [0.05]
