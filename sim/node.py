"""One simulated node: a directory that is its `/`, a container runtime and a kubelet.

Below the directory lie `k` (kubelet's root, short because a unix socket's path ends at 107
bytes), `etc/cdi` and `var/run/cdi`, `containers` (one JSON file each), `gpus.yaml`, and what
`sim.driverroot` makes of that: driver, `/dev`, `/proc` and `/sys`.
"""

import shutil
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from sim import driverroot, gpufile
from sim.apiserver.api import Api
from sim.apiserver.users import node_user
from sim.instancestore import InstanceStore
from sim.kubelet.health import DeviceHealth, DeviceKey
from sim.kubelet.kubelet import Kubelet, KubeletConfig
from sim.kubelet.release import release
from sim.kubelet.timing import Timing
from sim.runtime.container import ContainerView
from sim.runtime.runtime import Runtime

RunInLoop = Callable[[Coroutine[Any, Any, Any]], Any]

SOCKET_PATH_BYTES: Final = 107
"""The longest path that a unix socket can have."""
_LONGEST_SOCKET: Final = "plugins_registry/gpuslice.io-reg.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What a node is made of."""

    name: str
    gpus: Path | Sequence[str] = ()
    """A YAML file as `sim.gpufile` describes it, or names of GPU profiles."""
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    """Of the kubelet, where it differs from the cluster's."""


class Node:
    """A node as its cluster runs it; its methods belong to the cluster's loop."""

    def __init__(
        self, spec: NodeSpec, root: Path, *, number: int, version: str, timing: Timing
    ) -> None:
        self.name = spec.name
        self.root = root
        self.kubelet_root = root / "k"
        self.cdi_dir = root / "var" / "run" / "cdi"
        self.gpus_file = root / "gpus.yaml"
        _check_length(self.kubelet_root / _LONGEST_SOCKET)
        self.runtime = Runtime(root=root, containers_dir=root / "containers")
        self._spec = spec
        self._config = KubeletConfig(
            node=spec.name,
            root=self.kubelet_root,
            release=release(spec.version or version),
            timing=timing,
            labels=spec.labels,
            host_ip=f"192.0.2.{number % 250 + 1}",
            pod_network=f"10.244.{number % 250}",
        )
        self.kubelet: Kubelet | None = None

    def make_host(self) -> None:
        """Write the node's files; containers and kubelet's state of an earlier run are lost."""
        for folder in (self.cdi_dir, self.root / "etc" / "cdi", self.root / "containers"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.gpus_file.write_text(_gpus_text(self._spec), encoding="utf-8")
        self._forget_instances()
        self.build_driver()
        self.new_boot_id()

    def build_driver(self) -> None:
        """Bring driver, devices, `/proc` and `/sys` up to what the GPU file says now."""
        boot_id = self.boot_id()
        driverroot.build(gpufile.load(self.gpus_file), self.root)
        if boot_id:
            self._write_boot_id(boot_id)

    def boot_id(self) -> str:
        """Return the id of the current boot; empty before the first."""
        try:
            return self._boot_id_file().read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return ""

    def new_boot_id(self) -> None:
        """Let the node be in another boot."""
        self._write_boot_id(str(uuid.uuid4()))

    async def start(self, api: Api) -> None:
        """Start the kubelet."""
        user = node_user(self._spec.name)
        self.kubelet = Kubelet(api.as_user(user), self.runtime, self._config)
        await self.kubelet.start()

    async def stop(self) -> None:
        """Stop the kubelet."""
        if self.kubelet is not None:
            await self.kubelet.stop()

    async def restart_kubelet(self) -> None:
        """Restart the kubelet and leave the containers running."""
        if self.kubelet is not None:
            await self.kubelet.restart()

    async def reboot(self) -> None:
        """Stop everything, lose what a reboot loses, start the kubelet."""
        await self.stop()
        self.runtime.reset()
        shutil.rmtree(self.cdi_dir, ignore_errors=True)
        self._forget_instances()
        self.new_boot_id()
        if self.kubelet is not None:
            await self.kubelet.start()

    def _forget_instances(self) -> None:
        """Lose the MIG devices that were made while the node ran."""
        InstanceStore(self.gpus_file).path.unlink(missing_ok=True)

    def _boot_id_file(self) -> Path:
        return self.root / "proc" / "sys" / "kernel" / "random" / "boot_id"

    def _write_boot_id(self, boot_id: str) -> None:
        path = self._boot_id_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{boot_id}\n", encoding="utf-8")


class NodeHandle:
    """A node from outside the cluster's loop, for any thread."""

    def __init__(self, node: Node, run: RunInLoop) -> None:
        self._node = node
        self._run = run
        self.name = node.name
        self.root = node.root
        """The directory that is the node's `/`."""
        self.kubelet_root = node.kubelet_root
        self.cdi_dir = node.cdi_dir
        """What the runtime reads with the higher priority; empty after a reboot."""
        self.gpus_file = node.gpus_file

    def containers(self) -> list[ContainerView]:
        """Return the containers of all pods on the node, ended ones included."""
        return self._node.runtime.containers()

    def registered_drivers(self) -> dict[str, list[str]]:
        """Return the endpoints of registered plugins by driver."""
        return self._node.kubelet.registered_drivers() if self._node.kubelet else {}

    def device_plugins(self) -> dict[str, str]:
        """Return the socket of the device plugin in use for each resource."""
        return self._node.kubelet.device_plugins() if self._node.kubelet else {}

    def device_health(self) -> dict[DeviceKey, DeviceHealth]:
        """Return what plugins report of their devices, by driver, pool and device."""
        return self._node.kubelet.device_health() if self._node.kubelet else {}

    def boot_id(self) -> str:
        """Return the id of the current boot."""
        return self._node.boot_id()

    def rebuild_driver(self) -> None:
        """Bring driver, devices, `/proc` and `/sys` up to an edited GPU file."""
        self._node.build_driver()

    def restart_kubelet(self) -> None:
        """Restart the kubelet; containers run on, plugins are found again."""
        self._run(self._node.restart_kubelet())

    def reboot(self) -> None:
        """Reboot: containers and `var/run/cdi` are gone and the boot id is a new one.

        Plugins are other processes: who started them has to end them before and start them again.
        """
        self._run(self._node.reboot())


def _gpus_text(spec: NodeSpec) -> str:
    """Return the GPU file, with the node's name in it so that no two nodes share UUIDs."""
    if isinstance(spec.gpus, Path):
        document = yaml.safe_load(spec.gpus.read_text(encoding="utf-8"))
    else:
        document = {"gpus": [{"profile": profile} for profile in spec.gpus]}
    if isinstance(document, dict):
        document = {"node": spec.name, **document}
    return yaml.safe_dump(document, sort_keys=False)


def _check_length(socket: Path) -> None:
    length = len(str(socket).encode())
    if length > SOCKET_PATH_BYTES:
        message = f"{socket} has {length} bytes; a unix socket's path may have {SOCKET_PATH_BYTES}"
        raise ValueError(message)
