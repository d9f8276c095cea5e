"""A node, a control plane and the agents that a test starts, all gone when it ends."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdi.faults import FaultPoint
from tests.agent.control_plane import ControlPlane
from tests.agent.host import GPUS, Host
from tests.agent.kubelet import Kubelet
from tests.agent.process import Agent


class Scene:
    """What a test of the agent as a process needs."""

    def __init__(self, root: Path, gpus: str) -> None:
        self.host = Host(root, gpus)
        self.kubelet = Kubelet(self.host.plugin / "dra.sock")
        self.kubeconfig = root / "kubeconfig"
        self.control = ControlPlane(self.kubeconfig)
        self._agents: list[Agent] = []
        self.control.start()

    def agent(self, *flags: str, die_at: FaultPoint | None = None) -> Agent:
        """Begin to start an agent with *flags* beside those that every agent has."""
        made = Agent(self.host, self.kubeconfig, len(self._agents), *flags)
        if die_at is not None:
            made.die_at(die_at)
        self._agents.append(made)
        made.start()
        return made

    def started(self, *flags: str) -> Agent:
        """Start an agent and wait until kubelet may call it."""
        agent = self.agent(*flags)
        agent.wait_started()
        return agent

    def stop(self) -> None:
        """End everything."""
        self.kubelet.close()
        for agent in self._agents:
            agent.kill()
        self.control.stop()
        self.host.unmount()


@contextmanager
def scene(gpus: str = GPUS) -> Iterator[Scene]:
    """Run a scene; its directory has a short path, as unix sockets demand."""
    root = Path(tempfile.mkdtemp(prefix="gs"))
    made = Scene(root, gpus)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(root)
