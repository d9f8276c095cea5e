"""The halves of the command: each runs where it can, else all of its checks say why not."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cli.doctor.cluster.checks import CHECKS as CLUSTER_CHECKS
from cli.doctor.cluster.view import Cluster
from cli.doctor.model import Finding, Half, Verdict, skipped
from cli.doctor.node.checks import CHECKS as NODE_CHECKS
from cli.doctor.node.view import Node
from cli.doctor.preflight.preflights import ID, Wish, preflights
from cli.doctor.running import all_unknown, from_error, run
from kube import paths
from kube.config import ClientConfig, in_cluster_config, kubeconfig
from kube.draversions import VersionedClient
from kube.errors import ConfigError, KubeError

_USER_AGENT: Final = "gpuslice-doctor"
_DEFAULT: Final = ".kube/config"
_NO_NODE: Final = "this is no node: run it on one, or in the agent's container with --host-root"


def reach(
    path: Path | None, *, namespace: str | None, trial_namespace: str, timeout_s: float
) -> tuple[Cluster | None, Verdict | None]:
    """Return the cluster, or why it cannot be asked anything."""
    try:
        client = VersionedClient(_config(path), user_agent=_USER_AGENT, timeout_s=timeout_s)
        cluster = Cluster(client, namespace=namespace, trial_namespace=trial_namespace)
        # One answer first: else each check would wait for a server that is away.
        _ = cluster.version
    except KubeError as error:
        return None, from_error(error)
    return cluster, None


def kubeconfig_path(path: Path | None) -> Path | None:
    """Return the kubeconfig to use, `None` for the pod's own identity."""
    if path is not None:
        return path
    if named := os.environ.get("KUBECONFIG"):
        return Path(named.split(os.pathsep)[0])
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    usual = Path.home() / _DEFAULT
    return usual if usual.is_file() else None


def _config(path: Path | None) -> ClientConfig:
    chosen = kubeconfig_path(path)
    if chosen is None:
        return in_cluster_config()
    if not chosen.is_file():
        message = f"there is no kubeconfig {chosen}"
        raise ConfigError(message)
    return kubeconfig(str(chosen))


def cluster_half(cluster: Cluster | None, unreached: Verdict | None) -> Iterator[Finding]:
    """Yield what the checks of the cluster find."""
    if cluster is not None:
        yield from run(CLUSTER_CHECKS, cluster, Half.CLUSTER)
    elif unreached is not None:
        yield from all_unknown(CLUSTER_CHECKS, Half.CLUSTER, unreached)


def node_half(node: Node, *, wanted: bool) -> Iterator[Finding]:
    """Yield what the checks of the node find; where it is none only if that is *wanted*."""
    if wanted or node.is_node():
        yield from run(NODE_CHECKS, node, Half.NODE)
    else:
        yield from all_unknown(NODE_CHECKS, Half.NODE, skipped(_NO_NODE))


def preflight_half(
    cluster: Cluster | None, unreached: Verdict | None, wish: Wish
) -> Iterator[Finding]:
    """Yield what came of preflights."""
    if cluster is not None:
        yield from preflights(cluster, wish)
    elif unreached is not None:
        yield Finding(id=ID, half=Half.PREFLIGHT, verdict=unreached)


def claim_uids(cluster: Cluster) -> set[str]:
    """Return the UIDs of all claims; raises `KubeError`."""
    return {str(each["metadata"].get("uid")) for each in cluster.items(paths.resource_claims())}
