"""Waiting for XIDs between readings, on simulated GPUs through NVML's binding."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml
import pytest
from structlog.testing import capture_logs

from dra.healthwatch import HealthRules, HealthWatch
from gpu.nvml import Nvml
from gpu.xids import XidPolicy, XidSet
from sim import gpufile, nvml

NEVER = threading.Event()


@dataclass(slots=True)
class Clock:
    """Goes forward when told to."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


@dataclass(slots=True)
class Machine:
    """A node with two GPUs and who watches them."""

    path: Path
    policy: XidPolicy = field(default_factory=XidPolicy)
    clock: Clock = field(default_factory=Clock)
    edits: int = 0
    watch: HealthWatch = field(init=False)
    session: Nvml = field(init=False)
    logged: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.has()
        nvml.install(self.path)
        self.session = Nvml().open()
        self.watch = HealthWatch(HealthRules(policy=self.policy, clock=self.clock))

    def has(self, node: str = "", *, a: str = "", b: str = "") -> None:
        """Change the node and its GPUs by these YAML fields."""
        gpus = f"{{profile: t4, uuid: GPU-a, {a}}}, {{profile: t4, uuid: GPU-b, {b}}}"
        self.path.write_text(f"{{{node}{',' if node else ''} gpus: [{gpus}]}}")
        self.edits += 1
        os.utime(self.path, ns=(self.edits, self.edits))

    def read(self) -> list[tuple[str, str]]:
        """Read as the inventory does, and return what ails which device."""
        with capture_logs() as logged:
            reading = self.session.read()
            self.watch.follow(self.session)
            inventory = self.watch.diagnose(reading)
        self.logged += logged
        return [(each.uuid, each.code) for each in inventory.ailments]

    def wait(self, timeout_s: float = 0.0) -> bool:
        """Wait, and return whether to read again."""
        with capture_logs() as logged:
            again = self.watch.wait(NEVER, timeout_s)
        self.logged += logged
        return again

    def said(self, event: str) -> list[dict[str, Any]]:
        """Return what was logged with *event* since the last question, without level and name."""
        found = [each for each in self.logged if each["event"] == event]
        self.logged = [each for each in self.logged if each["event"] != event]
        return [
            {key: value for key, value in each.items() if key not in {"event", "log_level"}}
            for each in found
        ]

    def watched(self) -> set[str]:
        """Return the GPUs whose XIDs are reported."""
        events = self.watch._session.events
        return set(events.uuids) if events else set()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Lend a machine."""
    machine = Machine(tmp_path / "gpus.yaml")
    yield machine
    machine.watch.end_session()
    machine.session.close()
    nvml.uninstall()


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
