"""A node with two simulated GPUs, and who watches their XIDs."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from dra.healthwatch import HealthRules, HealthWatch
from gpu.nvml import Nvml
from gpu.xids import XidPolicy
from sim import nvml

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


@contextmanager
def watched(path: Path) -> Iterator[Machine]:
    """Lend a machine with its GPU file at *path*, and give the binding back afterwards."""
    machine = Machine(path)
    try:
        yield machine
    finally:
        machine.watch.end_session()
        machine.session.close()
        nvml.uninstall()
