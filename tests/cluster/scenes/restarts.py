"""Ends parts of the cluster as a node or its administrator would, and starts them again."""

import contextlib
import os
import signal
from collections.abc import Iterator

from tests.cluster import components
from tests.cluster.cluster import RealCluster
from tests.cluster.components import Component
from tests.cluster.process import ProcessRecord, Records
from tests.patience import eventually

KUBELET = "kubelet"
CONTAINERD = "containerd"
API_SERVER = "kube-apiserver"


def running(cluster: RealCluster, name: str) -> ProcessRecord:
    """Return the process called *name* that was started last."""
    records = Records(cluster.state.processes).read()
    return next(each for each in reversed(records) if each.name == name)


def end(cluster: RealCluster, name: str, number: int = signal.SIGTERM) -> None:
    """Send the process *name* a signal and wait for its end."""
    os.kill(running(cluster, name).pid, number)
    eventually(lambda: cluster.ended(name))


def start(cluster: RealCluster, name: str) -> None:
    """Start a component anew as the cluster was brought up with it."""
    component = _component(cluster, name)
    cluster.start(name, component.command, folder=cluster.state_dir)


def restart_kubelet(cluster: RealCluster, number: int = signal.SIGTERM) -> None:
    """Restart it; containers run on, and it is in use again some seconds later."""
    end(cluster, KUBELET, number)
    start(cluster, KUBELET)


@contextlib.contextmanager
def frozen(cluster: RealCluster, name: str) -> Iterator[None]:
    """Let the process *name* answer nobody for the block; connections to it stay open."""
    pid = running(cluster, name).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _component(cluster: RealCluster, name: str) -> Component:
    assets, state, options = cluster.assets, cluster.state, cluster.options
    made = {
        KUBELET: lambda: components.kubelet(assets, state, options, cluster.node_names[0]),
        CONTAINERD: lambda: components.containerd(assets, state),
        API_SERVER: lambda: components.api_server(assets, state, options),
    }
    return made[name]()
