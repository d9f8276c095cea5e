"""Ends one component of a cluster and starts another in its place, as an update does."""

import os
import signal
import time
from typing import Final

from tests.cluster.cluster import RealCluster
from tests.cluster.components import Component
from tests.cluster.process import Records
from tests.cluster.up import start_ready
from tests.patience import eventually

_GRACE_S: Final = 1.0


def end(cluster: RealCluster, name: str) -> None:
    """End the component *name* and wait until it is gone.

    An API server would wait a minute for its watches to end; it is killed before that.
    """
    records = Records(cluster.state.processes).read()
    running = next(each for each in reversed(records) if each.name == name)
    os.kill(running.pid, signal.SIGTERM)
    deadline_s = time.monotonic() + _GRACE_S
    while not cluster.ended(name) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    running.kill()
    eventually(lambda: cluster.ended(name))


def replace(cluster: RealCluster, component: Component) -> None:
    """Start *component* where one of its name may run, and wait until it is ready."""
    if not cluster.ended(component.name):
        end(cluster, component.name)
    with cluster.network():
        start_ready(cluster, component)
