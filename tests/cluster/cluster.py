"""A running cluster, as tests and commands see it."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from kube.client import Client
from kube.config import kubeconfig
from tests.cluster import namespace
from tests.cluster.assets import Assets, find
from tests.cluster.components import CDI_FOLDERS, KUBELET_ROOT, Options
from tests.cluster.down import take_down
from tests.cluster.errors import ClusterError
from tests.cluster.init import NAME as INIT
from tests.cluster.places import API_SERVICE_ADDRESS, State, node_names
from tests.cluster.process import ProcessRecord, Records, observe

REPOSITORY: Final = Path(__file__).parents[2]


class RealCluster:
    """A cluster that runs; `bring_up` makes one, `attach` finds one that a command has made."""

    def __init__(self, state: State, options: Options, assets: Assets) -> None:
        self.state = state
        self.options = options
        self.assets = assets
        self._children: list[subprocess.Popen[Any]] = []

    @classmethod
    def attach(cls, folder: Path) -> Self:
        """Return the cluster whose state is in *folder*; ClusterError when none runs."""
        state = State(folder)
        if not state.description.exists():
            raise ClusterError("no cluster is up")
        options = Options(**json.loads(state.description.read_text()))
        cluster = cls(state, options, find(options.minor))
        if not cluster.init.alive():
            raise ClusterError("the cluster has ended; `down` clears what it left")
        return cluster

    def describe(self) -> None:
        """Write what this cluster is, once all of it is ready."""
        self.state.description.write_text(json.dumps(asdict(self.options)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def init(self) -> ProcessRecord:
        """Return the first process of the namespaces."""
        return next(each for each in Records(self.state.processes).read() if each.name == INIT)

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig of a user who may do all."""
        return self.state.kubeconfig("admin")

    @property
    def state_dir(self) -> Path:
        """Return the folder of everything of this cluster; the same inside and outside."""
        return self.state.folder

    @property
    def kubelet_root(self) -> Path:
        """Return kubelet's folder as the cluster's processes see it."""
        return Path(KUBELET_ROOT)

    @property
    def cdi_dir(self) -> Path:
        """Return the folder of CDI specs as the cluster's processes see it."""
        return Path(CDI_FOLDERS[-1])

    @property
    def node_names(self) -> tuple[str, ...]:
        """Return all nodes; only the first has a kubelet."""
        return node_names(self.options.nodes)

    def outside(self, path: Path | str) -> Path:
        """Return where a file that the cluster's processes see is to be found from here."""
        return self.state.behind(str(path))

    def mounted(self, path: Path | str) -> Path:
        """Return where it is to be found from here with all that is mounted for them."""
        return Path(f"/proc/{self.init.pid}/root{path}")

    def network(self) -> contextlib.AbstractContextManager[None]:
        """Put the calling thread, and those that it starts, into the cluster's network."""
        return namespace.network_of(self.init.pid)

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Return a client of the admin, with the calling thread in the cluster's network."""
        with self.network():
            client = Client(kubeconfig(str(self.kubeconfig)), user_agent="gpuslice-tests")
            try:
                yield client
            finally:
                client.close()

    def environment(self) -> dict[str, str]:
        """Return the variables with which programs inside find the cluster's API and tools."""
        tools = Path(self.assets.path("kubectl")).parent
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": f"{tools}:{os.environ['PATH']}"}

    def in_cluster_environment(self) -> dict[str, str]:
        """Return the variables that kubelet gives pods, for a program run as if in one."""
        return {"KUBERNETES_SERVICE_HOST": API_SERVICE_ADDRESS, "KUBERNETES_SERVICE_PORT": "443"}

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path = REPOSITORY,
    ) -> subprocess.Popen[Any]:
        """Start a program inside; its output goes to the log *name*, and `stop` ends it."""
        with self.log(name).open("ab") as log:
            child = namespace.spawn(
                self.init,
                command,
                folder=folder,
                environment={**self.environment(), **(environment or {})},
                streams=(subprocess.DEVNULL, log, subprocess.STDOUT),
            )
        self._children.append(child)
        with contextlib.suppress(ProcessLookupError):
            Records(self.state.processes).add(observe(name, child.pid))
        return child

    def run_in(
        self,
        *command: str,
        stdin: str | None = None,
        check: bool = True,
        timeout_s: float = 60.0,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside to its end; its output is kept as text."""
        child = namespace.spawn(
            self.init,
            command,
            folder=REPOSITORY,
            environment={**self.environment(), **(environment or {})},
            streams=(subprocess.PIPE, subprocess.PIPE, subprocess.PIPE),
        )
        with child:
            try:
                output, errors = child.communicate(stdin, timeout_s)
            except subprocess.TimeoutExpired:
                child.kill()
                raise
        if check and child.returncode != 0:
            message = f"{' '.join(command)} ended with {child.returncode}: {errors or output}"
            raise ClusterError(message)
        return subprocess.CompletedProcess(command, child.returncode, output, errors)

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60.0) -> str:
        """Return what kubectl prints, run inside as the admin."""
        command = (self.assets.path("kubectl"), *arguments)
        return self.run_in(*command, stdin=stdin, timeout_s=timeout_s).stdout

    def log(self, name: str) -> Path:
        """Return the log of a component or a started program."""
        return self.state.logs / f"{name}.log"

    def ended(self, name: str) -> bool:
        """Tell whether a program that was started here has ended."""
        records = [each for each in Records(self.state.processes).read() if each.name == name]
        return not records or not records[-1].alive()

    def last_lines(self, name: str, count: int = 20) -> str:
        """Return the end of a log."""
        path = self.log(name)
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(lines[-count:])

    def stop(self) -> None:
        """Take all of it down."""
        take_down(self.state, self._reap)

    def let_go(self) -> None:
        """Leave it running; what was started here outlives this process."""
        for child in self._children:
            if child.poll() is None:
                # Python warns of a child that nobody waited for.
                child.returncode = 0

    def _reap(self) -> None:
        for child in self._children:
            child.poll()
