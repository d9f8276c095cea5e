"""Scheduler and controllers of a cluster, ended and started again with other flags.

A round of a measurement begins with objects that are all there and a scheduler that is not: what
it does then is its own work and not the wait for ours.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.cluster import components
from tests.cluster.cluster import RealCluster
from tests.cluster.components import Component
from tests.cluster.process import ProcessRecord, Records
from tests.patience import eventually

SCHEDULER: Final = "kube-scheduler"
CONTROLLERS: Final = "kube-controller-manager"
# Of the components' own limits (50 and 20 requests per second) nothing is to be seen in a rate.
UNLIMITED: Final = ("--kube-api-qps=5000", "--kube-api-burst=5000")
# The same in a scheduler's configuration, beside which it hears no such flags.
UNLIMITED_CONNECTION: Final = {"qps": 5000, "burst": 5000}
# Nodes are objects here that nobody renews.
WITHOUT_NODES: Final = ("--controllers=*,-node-lifecycle-controller,-taint-eviction-controller",)
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True, kw_only=True)
class ControlPlane:
    """What can be ended and started of *cluster*; all of it runs at first."""

    cluster: RealCluster

    def end(self, name: str) -> None:
        """End a component and wait until it has; one that does not run is left so."""
        record = self._running(name)
        if record is None:
            return
        os.kill(record.pid, signal.SIGTERM)
        eventually(lambda: self.cluster.ended(name))

    def start_scheduler(self, flags: Sequence[str] = UNLIMITED) -> None:
        """Start the scheduler with *flags* besides the usual ones."""
        cluster = self.cluster
        made = components.scheduler(cluster.assets, cluster.state, cluster.options)
        self._start(made, flags)

    def start_controllers(self, flags: Sequence[str] = UNLIMITED) -> None:
        """Start the controllers, without those that look after nodes."""
        cluster = self.cluster
        made = components.controller_manager(cluster.assets, cluster.state, cluster.options)
        self._start(made, (*flags, *WITHOUT_NODES))

    def cpu_s(self, name: str) -> float:
        """Return the seconds that the component has computed."""
        record = self._running(name)
        assert record is not None, f"{name} does not run"
        fields = Path(f"/proc/{record.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def _running(self, name: str) -> ProcessRecord | None:
        records = [
            each for each in Records(self.cluster.state.processes).read() if each.name == name
        ]
        return records[-1] if records and records[-1].alive() else None

    def _start(self, component: Component, flags: Sequence[str]) -> None:
        changed = replace(component, command=(*component.command, *flags))
        self.cluster.start(changed.name, changed.command, folder=self.cluster.state_dir)
