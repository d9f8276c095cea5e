"""A simulated node with the real agent on it, and the cluster that the agent sees.

The agent runs as in a pod: with a service account's directory and bytecode that is compiled
before, but over a simulated NVML in its own process.
"""

import json
import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cdi.library import make_placeholder
from gpu import names
from sim import driverroot, gpufile, hardware
from tests.bench.claims import GPU_FILE, NAMESPACE, NODE, Claim
from tests.bench.processes import Process, running
from tests.fakes.authority import Authority


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How the agent reaches the API server."""

    service_account: Path
    port: int
    server: Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The directories of a node; each agent has a kubelet's of its own."""

    directory: Path
    run: Path
    """On a tmpfs, as /run is on a host."""
    gpu_file: Path
    gpu_uuids: list[str]

    @property
    def host(self) -> Path:
        """Return the root of the host's files."""
        return self.directory / "host"


@contextmanager
def made_node(directory: Path) -> Iterator[Node]:
    """Build a node with eight GPUs in *directory*."""
    memory = Path("/dev/shm")  # noqa: S108 - the tmpfs that every Linux has
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else directory) as run:
        yield _make_node(directory, Path(run))


def _make_node(directory: Path, run: Path) -> Node:
    gpu_file = directory / "gpus.yaml"
    gpu_file.write_text(GPU_FILE)
    parsed = gpufile.load(gpu_file)
    host = driverroot.build(parsed, directory / "host")
    boot_id = host.proc / "sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("boot\n")
    make_placeholder(directory / "libvgpu.so")
    uuids = [gpu.uuid for gpu in hardware.gpus(parsed)]
    return Node(directory=directory, run=run, gpu_file=gpu_file, gpu_uuids=uuids)


@contextmanager
def prepared_cluster(node: Node, claims: Sequence[Claim]) -> Iterator[Cluster]:
    """Run the API server with all answers ready."""
    account = node.directory / "serviceaccount"
    account.mkdir(exist_ok=True)
    authority = Authority(account)
    token = secrets.token_urlsafe(32)
    (account / "token").write_text(token)
    (account / "namespace").write_text("gpuslice")
    certificate = node.directory / "server.pem"
    issued = authority.ca.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    settings = {
        "certificate": str(certificate),
        "token": token,
        "claims": {claim.name: claim.body(node.gpu_uuids).decode() for claim in claims},
    }
    path = node.directory / "server.json"
    path.write_text(json.dumps(settings))
    with running(Process(["tests.bench.api_server", str(path)], compiled(node))) as server:
        _, port = server.wait_line(str.isdigit)
        yield Cluster(service_account=account, port=int(port), server=server)


class Agent:
    """The agent's process and where it keeps things."""

    def __init__(
        self,
        node: Node,
        kubelet_root: Path,
        cluster: Cluster,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.kubelet_root = kubelet_root
        environment = {
            **(environment or {}),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(cluster.port),
        }
        account = ["--service-account", str(cluster.service_account)]
        self.process = start_agent(node, kubelet_root, account, environment=environment)

    @property
    def registry(self) -> Path:
        """Return where kubelet looks for plugins."""
        return self.kubelet_root / "plugins_registry"

    @property
    def state(self) -> Path:
        """Return where prepared claims are kept."""
        return self.kubelet_root / "plugins" / names.DRIVER / "state"


def start_agent(
    node: Node,
    kubelet_root: Path,
    launcher: Sequence[str] = (),
    *,
    flags: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Process:
    """Start the agent as the simulation's launcher does."""
    kubelet_root.mkdir(parents=True)
    given = {
        "node-name": NODE,
        "kubelet-root": kubelet_root,
        "cdi-directory": node.run / kubelet_root.name / "cdi",
        "host-root": node.host,
        "proc-root": node.host / "proc",
        "sys-root": node.host / "sys",
        "probe-address": "127.0.0.1",
        "probe-port": 0,
        "hami-core-library": node.directory / "libvgpu.so",
        "operator-wait-s": 0,
        "shares-per-gpu": 1024,
        "unlimited-namespaces": NAMESPACE,
    }
    words = [word for flag, value in given.items() for word in (f"--{flag}", str(value))]
    words += ["--accept-placeholder-library", *flags]
    arguments = ["cli.simulated_agent", "--gpus", str(node.gpu_file), *launcher, "--", *words]
    return Process(arguments, compiled(node) | (environment or {}))


def compiled(node: Node) -> dict[str, str]:
    """Return the environment in which bytecode is kept, as it is in an image."""
    return {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(node.directory / "bytecode"),
    }


def forget(kubelet_root: Path) -> None:
    """Take the mounts below *kubelet_root* away, so that it can be removed."""
    mounted = Path("/proc/self/mounts").read_text().splitlines()
    for target in [line.split()[1] for line in mounted]:
        if target.startswith(f"{kubelet_root}{os.sep}"):
            subprocess.run(["umount", target], check=False)  # noqa: S603, S607
