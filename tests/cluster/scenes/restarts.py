"""Ends the cluster's kubelet as a node would, and starts it again."""

import os
import signal

from tests.cluster import components
from tests.cluster.cluster import RealCluster
from tests.cluster.process import Records
from tests.patience import eventually


def restart_kubelet(cluster: RealCluster) -> None:
    """Restart it; containers run on, and it is in use again some seconds later."""
    name = "kubelet"
    records = Records(cluster.state.processes).read()
    running = next(each for each in reversed(records) if each.name == name)
    os.kill(running.pid, signal.SIGTERM)
    eventually(lambda: cluster.ended(name))
    component = components.kubelet(
        cluster.assets, cluster.state, cluster.options, cluster.node_names[0]
    )
    cluster.start(name, component.command, folder=cluster.state_dir)
