"""A node that serves the device plugin: kubelet's device manager, and pods as they are placed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdi.faults import FaultPoint
from hami.plugin.containers import owner_name
from protos import deviceplugin_v1beta1_pb2 as api
from tests.agent.process import Agent
from tests.agent.scene import Scene
from tests.hami.plugin.kubelet import Kubelet
from tests.hami.plugin.placed import NODE, Cluster
from tests.patience import eventually

GPUS = "gpus: [{profile: l4}, {profile: a10}]"
CONTAINER = "app-0"
REGISTER = "hami.io/node-nvidia-register"

JsonObject = dict[str, Any]


class CardScene:
    """A node with two GPUs, its control plane and its kubelet; no agent yet."""

    def __init__(self, root: Path, gpus: str) -> None:
        self.stage = Scene(root, gpus)
        self.host = self.stage.host
        self.cluster = Cluster(self.stage.control)
        self.kubelet = Kubelet(self.host.kubelet_root / "device-plugins")
        self.kubelet.start()
        self._pods = 0

    def agent(self, *flags: str, die_at: FaultPoint | None = None) -> Agent:
        """Begin to start an agent."""
        given = ("--mode=device-plugin", f"--node-name={NODE}", "--device-list-strategy=cdi-cri")
        return self.stage.agent(*given, *flags, die_at=die_at)

    def started(self, *flags: str) -> Agent:
        """Start an agent and wait until kubelet has its devices and the Node says them."""
        lists = len(self.kubelet.lists)
        agent = self.agent(*flags)
        self.wait_served(agent, lists=lists)
        return agent

    def wait_served(self, agent: Agent, *, lists: int = 0) -> None:
        """Wait until kubelet has had more than so many *lists*, and *agent* is ready."""
        agent.wait_started()
        self.kubelet.wait_lists(lists + 1)
        eventually(lambda: agent.ask("/readyz")[0] == 200)

    def restart_kubelet(self) -> None:
        """Have another kubelet, which knows nobody."""
        self.kubelet.stop()
        self.kubelet = Kubelet(self.host.kubelet_root / "device-plugins")
        self.kubelet.start()

    def place(self, index: int = 0, memory_mib: int = 3000) -> tuple[str, str]:
        """Create a pod that was given a part of a GPU; return its name and UID."""
        self._pods += 1
        name = f"pod-{self._pods}"
        given = f"{self.host.gpus[index].uuid},NVIDIA,{memory_mib},30:;"
        return name, self.cluster.pod(name, given)

    def allocate(self, index: int = 0) -> api.ContainerAllocateResponse:
        """Have kubelet ask for one device of GPU *index*."""
        free = [each for each in self.kubelet.healthy() if each not in self.kubelet.used]
        prefix = self.host.gpus[index].uuid
        (answer,) = self.kubelet.allocate([next(each for each in free if each.startswith(prefix))])
        return answer

    def hand_out(self, index: int = 0) -> tuple[str, str]:
        """Place a pod and have it get what it was given; return its name and UID."""
        name, uid = self.place(index)
        assert self.allocate(index).envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
        assert (self.cluster.phase(name), self.cluster.locked_by()) == ("success", "")
        return name, uid

    def region(self, uid: str) -> Path:
        """Return the region of the container of a pod."""
        return self.host.region(owner_name(uid, CONTAINER))

    def record(self, uid: str) -> Path:
        """Return the record of the same."""
        return self.host.plugin / "containers" / f"{owner_name(uid, CONTAINER)}.json"

    def node(self) -> JsonObject:
        """Return the Node."""
        return self.stage.control.run(self.stage.control.server.api.get("nodes", NODE))

    def register(self) -> str:
        """Return what the Node says of its GPUs."""
        return str((self.node()["metadata"].get("annotations") or {}).get(REGISTER, ""))

    def check_left(self, *uids: str) -> None:
        """Check that records and regions of the pods *uids* are there, and nothing else."""
        owners = {owner_name(uid, CONTAINER) for uid in uids}
        records = {path.name for path in (self.host.plugin / "containers").glob("*")}
        assert records == {f"{owner}.json" for owner in owners}
        assert {path.name for path in self.host.regions.iterdir()} == owners
        assert all(self.host.region(owner).is_file() for owner in owners)
        assert self.host.temporary_files() == []

    def stop(self) -> None:
        """End everything."""
        self.stage.stop()
        self.kubelet.stop()


@contextmanager
def card_scene(gpus: str = GPUS) -> Iterator[CardScene]:
    """Run a scene; its directory has a short path, as unix sockets demand."""
    root = Path(tempfile.mkdtemp(prefix="gs"))
    made = CardScene(root, gpus)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(root)
