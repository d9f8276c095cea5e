"""Names, addresses and folders of a cluster, in one place.

The namespace has one bridge that carries the nodes' addresses and the API server's service
address, so that in-cluster configuration works without kube-proxy.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NODE_NETWORK: Final = "10.99.0"
SERVICE_RANGE: Final = "10.96.0.0/16"
API_SERVICE_ADDRESS: Final = "10.96.0.1"
POD_RANGE: Final = "10.244.0.0/24"
BRIDGE: Final = "nodes0"
ISSUER: Final = "https://kubernetes.default.svc"

# Folders of the machine that a cluster has of its own, so that kubelet, containerd and the
# network plugins find their usual paths and leave nothing behind.
OWN_FOLDERS: Final = ("/run", "/var/lib", "/var/log")


def node_address(index: int) -> str:
    """Return the address of the node with this *index*, from 0."""
    return f"{NODE_NETWORK}.{index + 1}"


def node_names(count: int) -> tuple[str, ...]:
    """Return the names of *count* nodes; the first has a kubelet."""
    return tuple(f"node-{index + 1}" for index in range(count))


def default_state() -> Path:
    """Return the state folder that the commands use when none is named."""
    return state_base(os.environ) / "default"


def state_base(environment: Mapping[str, str]) -> Path:
    """Return the folder of all clusters' states, after the XDG base directory rules."""
    home = Path(environment.get("HOME", "/"))
    return Path(environment.get("XDG_STATE_HOME") or home / ".local/state") / "gpuslice/cluster"


@dataclass(frozen=True, slots=True)
class State:
    """The state folder of one cluster and what lies where in it."""

    folder: Path

    @property
    def pki(self) -> Path:
        """Return the folder of keys and certificates."""
        return self.folder / "pki"

    @property
    def kubeconfigs(self) -> Path:
        """Return the folder of kubeconfigs, one for each user."""
        return self.folder / "kubeconfigs"

    @property
    def config(self) -> Path:
        """Return the folder of the components' configuration files."""
        return self.folder / "config"

    @property
    def logs(self) -> Path:
        """Return the folder of logs, one file for each process."""
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        """Return the API server's record of requests, one JSON object in each line."""
        return self.logs / "audit.jsonl"

    @property
    def processes(self) -> Path:
        """Return the file of process records."""
        return self.folder / "processes.jsonl"

    @property
    def description(self) -> Path:
        """Return the file that says what was brought up."""
        return self.folder / "cluster.json"

    @property
    def cgroup(self) -> str:
        """Return the cgroup below which all pods of this cluster are."""
        digest = hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]
        return f"/gpuslice-{digest}"

    def behind(self, path: str) -> Path:
        """Return where a file of one of the cluster's own folders lies, seen from outside."""
        for own in OWN_FOLDERS:
            if path == own or path.startswith(f"{own}/"):
                return self.folder / "root" / path.lstrip("/")
        return Path(path)

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of *user*."""
        return self.kubeconfigs / f"{user}.yaml"

    def make(self) -> None:
        """Make all folders."""
        for each in (self.pki, self.kubeconfigs, self.config, self.logs):
            each.mkdir(parents=True)
        for own in OWN_FOLDERS:
            self.behind(own).mkdir(parents=True)
