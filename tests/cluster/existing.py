"""The cluster that KUBECONFIG names, for scenes that need no access to its nodes.

For people who have a cluster of another kind, such as one made by the script under `kind/`.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kube.client import Client
from kube.config import kubeconfig
from tests.cluster.errors import ClusterError, MissingError


class ExistingCluster:
    """Somebody's cluster; nothing of it is started or taken down."""

    def __init__(self, path: Path) -> None:
        self.kubeconfig = path

    @classmethod
    def from_environment(cls) -> "ExistingCluster":
        """Return the cluster of KUBECONFIG; MissingError when it names none."""
        path = os.environ.get("KUBECONFIG")
        if not path:
            raise MissingError("--cluster=existing needs KUBECONFIG to name a kubeconfig")
        return cls(Path(path))

    @property
    def node_names(self) -> tuple[str, ...]:
        """Return the names of its nodes."""
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return tuple(node["metadata"]["name"] for node in nodes)

    def network(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing, for its API server is reached from here."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Return a client of the kubeconfig's user."""
        client = Client(kubeconfig(str(self.kubeconfig)), user_agent="gpuslice-tests")
        try:
            yield client
        finally:
            client.close()

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 60.0) -> str:
        """Return what the kubectl on PATH prints."""
        done = subprocess.run(  # noqa: S603 - the tests' own commands
            ["kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],  # noqa: S607
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            message = f"kubectl {' '.join(arguments)} ended with {done.returncode}: {done.stderr}"
            raise ClusterError(message)
        return done.stdout
