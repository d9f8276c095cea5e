"""An API server with nothing around it but its store and one node agent.

The scheduler and kubelet of all releases want `v1`, so the older versions of `resource.k8s.io` are
tried without them: the test itself says what kubelet and a scheduler would. What it reads and
writes is in the version that the server has, spelled out, and not translated by our own code.
"""

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpu import names
from kube import paths
from kube.client import Client
from tests.agent.control_plane import NAMESPACE, Claim, JsonObject
from tests.agent.host import NODE, Host
from tests.cluster import components
from tests.cluster.cluster import RealCluster
from tests.cluster.components import Options
from tests.cluster.replacing import replace
from tests.cluster.up import bring_up_api_server
from tests.patience import eventually

if TYPE_CHECKING:
    from subprocess import Popen

GROUP: Final = "resource.k8s.io"
PORT: Final = 51515
_STOP_S: Final = 20.0
_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")


def serving(minor: str, *versions: str, gates: Mapping[str, bool] | None = None) -> Options:
    """Return the options of an API server that serves these *versions* of the group alone.

    Its feature *gates* are the release's, but for those given.
    """
    before_v1 = minor == "1.33"
    known = _VERSIONS[1:] if before_v1 else _VERSIONS
    return Options(
        minor=minor,
        gates={**({"DynamicResourceAllocation": True} if before_v1 else {}), **(gates or {})},
        apis=[f"{GROUP}/{each}" for each in versions],
        without_apis=[f"{GROUP}/{each}" for each in known if each not in versions],
        authorization="RBAC",
    )


def shares_by_default(minor: str) -> bool:
    """Tell whether the release keeps what makes a GPU shareable."""
    return tuple(map(int, minor.split("."))) >= (1, 36)


class Alone:
    """The server, the node's files, and the agent once it was started."""

    def __init__(self, cluster: RealCluster, client: Client, host: Host) -> None:
        self.cluster = cluster
        self.client = client
        self.host = host
        self._agent: Popen[Any] | None = None
        self._count = 0

    def serve(self, *versions: str, gates: Mapping[str, bool] | None = None) -> None:
        """Replace the API server by one that serves these *versions*, with the same store."""
        options = serving(self.cluster.options.minor, *versions, gates=gates)
        state = self.cluster.state
        replace(self.cluster, components.api_server(self.cluster.assets, state, options))

    def start_agent(self, *flags: str) -> None:
        """Start the node agent; with *flags* beside those that it needs."""
        host = self.host
        own: Mapping[str, object] = {
            "--node-name": NODE,
            "--kubeconfig": self.cluster.kubeconfig,
            "--kubelet-root": host.kubelet_root,
            "--cdi-directory": host.cdi,
            "--host-root": host.files,
            "--proc-root": host.files / "proc",
            "--sys-root": host.files / "sys",
            "--operator-wait-s": 0,
            "--hami-core-library": host.library,
            "--probe-address": "127.0.0.1",
            "--probe-port": PORT,
            "--scan-interval-s": 1,
        }
        words = [str(word) for pair in own.items() for word in pair]
        self._agent = self.cluster.start(
            "agent",
            (
                *(sys.executable, "-m", "cli.simulated_agent", "--gpus", str(host.gpus_file)),
                *("--", *words, "--accept-placeholder-library", *flags),
            ),
        )
        eventually(lambda: "plugin started" in self.log())

    def stop_agent(self) -> None:
        """End the agent if it runs."""
        if self._agent is not None:
            self._agent.terminate()
            self._agent.wait(_STOP_S)
            self._agent = None

    def is_running(self) -> bool:
        """Tell whether the agent that was started is the one that runs."""
        return self._agent is not None and self._agent.poll() is None

    def log(self) -> str:
        """Return all that the agent has logged."""
        return self.cluster.log("agent").read_text(errors="replace")

    def logged(self, event: str) -> list[JsonObject]:
        """Return the agent's log entries of one *event*."""
        entries = [json.loads(each) for each in self.log().splitlines() if each.startswith("{")]
        return [each for each in entries if each.get("event") == event]

    def slices(self, version: str) -> list[JsonObject]:
        """Return the ResourceSlices as the server has them in *version*."""
        path = paths.resource_slices(version=version)
        return list(json.loads(self.client.get(path))["items"])

    def claim(self, version: str, result: JsonObject) -> Claim:
        """Create a claim in *version* and give it *result*, as a scheduler does."""
        self._count += 1
        name = f"claim-{self._count}"
        device_class = names.CLASS_SHARE if "shareID" in result else names.CLASS_WHOLE
        wanted: JsonObject = {"deviceClassName": device_class}
        body = {
            "apiVersion": f"{GROUP}/{version}",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {
                "devices": {
                    "requests": [
                        {"name": result["request"]}
                        | (wanted if version == "v1beta1" else {"exactly": wanted})
                    ]
                }
            },
        }
        path = paths.resource_claims(NAMESPACE, version=version)
        stored = json.loads(self.client.create(path, body))
        stored["status"] = {"allocation": {"devices": {"results": [result]}}}
        self.client.replace(
            paths.resource_claims(NAMESPACE, name, "status", version=version), stored
        )
        return Claim(namespace=NAMESPACE, name=name, uid=str(stored["metadata"]["uid"]))


@contextlib.contextmanager
def alone(folder: Path, options: Options) -> Iterator[Alone]:
    """Run an API server in *folder* for the block; the thread is in its network."""
    # Short, because sockets lie below it; no agent mounts anything that is seen out here.
    root = Path(tempfile.mkdtemp(prefix="gs"))
    try:
        with bring_up_api_server(folder, options) as cluster, cluster.client() as client:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
            client.create(paths.nodes(), node)
            made = Alone(cluster, client, Host(root))
            try:
                yield made
            finally:
                made.stop_agent()
    finally:
        shutil.rmtree(root)
