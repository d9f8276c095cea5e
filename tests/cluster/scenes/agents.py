"""The node agents of a real cluster: what each finds on its node, and their processes.

Only NVML and the files of NVIDIA's driver are stood in for. The first node's agent finds the
driver below /run/nvidia/driver, where the GPU Operator's driver container has it, its device nodes
included, for /dev belongs to the machine. Nodes without a kubelet have agents with a kubelet root
of their own, which no kubelet ever reads.
"""

import contextlib
import http.client
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from cdi.library import make_placeholder
from gpu import names
from sim import driverroot, gpufile
from tests.cluster.cluster import RealCluster
from tests.cluster.identities import identity_on

NAMESPACE: Final = "gpuslice-system"
ACCOUNT: Final = "gpuslice-node-agent"
DRIVER_ROOT: Final = "/run/nvidia/driver"
STOP_S: Final = 20.0
_BOOT_ID: Final = "sys/kernel/random/boot_id"
_FIRST_PORT: Final = 51515
# A second agent of a node, in a rolling update, must not ask for the port of the first.
_PORTS: Final = 100
# A scene waits for it.
_RESTORE_S: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What every agent of one node finds there."""

    node: str
    index: int
    seen: Path
    """Root of the node's files as an agent sees it."""
    files: Path
    """The same root, seen from outside the cluster."""
    kubelet_root: Path
    cdi_folder: str
    gpus: Path
    """The GPU file, the same inside and outside."""
    identity: Path
    """Folder with the token that an agent uses."""
    library: Path
    log: str
    """Name of the log of its agents."""

    @property
    def boot_id(self) -> Path:
        """The file that names the node's boot."""
        return self.files / "proc" / _BOOT_ID

    @property
    def told(self) -> Path:
        """The folder in which the launcher looks for what a scene wants of an agent."""
        return self.files / "told"

    @property
    def plugin(self) -> Path:
        """The plugin's folder as the cluster's processes see it."""
        return self.kubelet_root / "plugins" / names.DRIVER


@dataclass(slots=True, kw_only=True)
class Agent:
    """A node agent that runs."""

    host: Host
    process: subprocess.Popen[Any]
    port: int
    pod_uid: str

    @property
    def node(self) -> str:
        """The node that it runs on."""
        return self.host.node

    @property
    def identity(self) -> Path:
        """Folder with the token that it uses."""
        return self.host.identity

    @property
    def cdi_folder(self) -> str:
        """As the cluster's processes see it."""
        return self.host.cdi_folder

    @property
    def gpus(self) -> Path:
        """Its GPU file."""
        return self.host.gpus

    def running(self) -> bool:
        """Tell whether its process has not ended."""
        return self.process.poll() is None

    def ready(self) -> bool:
        """Tell whether kubelet, GPUs and slices are as they should be."""
        assert self.running(), f"the agent of {self.node} has ended"
        return self._ask("readyz")[0]

    def metrics(self) -> str:
        """Return its metrics in Prometheus' text form."""
        return self._ask("metrics")[1]

    def terminate(self) -> None:
        """End it as a node would."""
        self.process.terminate()
        self.process.wait(STOP_S)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(STOP_S)

    def die_at(self, point: str) -> None:
        """Have it killed when it reaches the fault point, and each one after it too."""
        (self.host.told / "deadly").write_text(point)

    def live_on(self) -> None:
        """Take that back."""
        (self.host.told / "deadly").unlink(missing_ok=True)

    def shift_clock(self, seconds: int) -> None:
        """Let it see the wall clock shifted by *seconds*, and each one after it too."""
        (self.host.told / "clock").write_text(str(seconds))

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[str]]:
        """Yield a list that has, after the block, the fault points that were passed in it."""
        met, found = self.host.told / "met", list[str]()
        met.write_text("")
        try:
            yield found
        finally:
            found += dict.fromkeys(met.read_text().split())
            met.unlink()

    def pause(self) -> None:
        """Let it answer nobody; what kubelet asks stays on the way until `resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def _ask(self, path: str) -> tuple[bool, str]:
        url = f"http://127.0.0.1:{self.port}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:  # our own URL
                return True, response.read().decode()
        except urllib.error.HTTPError as error:
            # An agent that is killed while it answers leaves half an answer.
            with error, contextlib.suppress(http.client.HTTPException):
                return False, error.read().decode()
            return False, str(error)
        except (OSError, http.client.HTTPException) as error:
            return False, str(error)


def lay_out(
    cluster: RealCluster, index: int, node: str, gpus: tuple[Mapping[str, Any], ...]
) -> Host:
    """Write driver, /proc and /sys of a *node* with *gpus*, and take an identity for its agents."""
    # The first node's /run is what all processes of the cluster have; further ones have trees.
    tree = Path("/") if index == 0 else Path("/var/lib/hosts", node)
    written = cluster.outside("/var/lib").parents[1] / str(tree).lstrip("/")
    library = cluster.state_dir / "libvgpu.so"
    if not library.exists():
        make_placeholder(library)
    host = Host(
        node=node,
        index=index,
        seen=tree,
        files=written,
        kubelet_root=cluster.kubelet_root if index == 0 else tree / "k",
        cdi_folder=str(cluster.cdi_dir if index == 0 else tree / "cdi"),
        gpus=written / "gpus.yaml",
        identity=identity_on(cluster, node=node, namespace=NAMESPACE, account=ACCOUNT),
        library=library,
        log=f"agent-{node}",
    )
    host.gpus.parent.mkdir(parents=True, exist_ok=True)
    host.gpus.write_text(yaml.safe_dump({"node": node, "gpus": [dict(each) for each in gpus]}))
    driverroot.build(
        gpufile.load(host.gpus), written, driver_root=DRIVER_ROOT, dev_root=DRIVER_ROOT
    )
    host.boot_id.parent.mkdir(parents=True, exist_ok=True)
    host.boot_id.write_text(Path("/proc", _BOOT_ID).read_text())
    shutil.rmtree(host.told, ignore_errors=True)
    host.told.mkdir()
    return host


def start_agent(
    cluster: RealCluster,
    host: Host,
    *,
    pod_uid: str | None = None,
    second: bool = False,
    flags: Mapping[str, object] | None = None,
) -> Agent:
    """Start an agent on *host*, of a new pod unless *pod_uid* says which.

    A *second* one runs beside another; *flags* add to the usual ones or replace them, and one of
    `None` has no value.
    """
    pod_uid = pod_uid or str(uuid.uuid4())
    port = port_of(host) + (_PORTS if second else 0)
    given = _flags(host) | {"--pod-uid": pod_uid, "--probe-port": port} | dict(flags or {})
    words = [str(word) for pair in given.items() for word in pair if word is not None]
    process = cluster.start(
        host.log,
        (
            *(sys.executable, "-m", "tests.cluster.scenes.launcher"),
            *("--folder", str(host.told), "--"),
            *("--gpus", str(host.gpus), "--service-account", str(host.identity), "--"),
            *(*words, "--accept-placeholder-library"),
        ),
        environment=cluster.in_cluster_environment(),
    )
    return Agent(host=host, process=process, port=port, pod_uid=pod_uid)


def port_of(host: Host) -> int:
    """Return the port of the probes of an agent on *host* that is alone."""
    return _FIRST_PORT + host.index


def _flags(host: Host) -> dict[str, object]:
    return {
        "--node-name": host.node,
        "--kubelet-root": host.kubelet_root,
        "--cdi-directory": host.cdi_folder,
        "--host-root": host.seen,
        "--proc-root": host.files / "proc",
        "--sys-root": host.files / "sys",
        "--hami-core-library": host.library,
        "--probe-address": "127.0.0.1",
        "--operator-wait-s": 0,
        "--restore-interval-s": _RESTORE_S,
    }
