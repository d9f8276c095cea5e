"""Bring a cluster up, step by step, each with a check that it is ready."""

import contextlib
import json
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.error import URLError

from tests.cluster import components, kubeconfigs
from tests.cluster.assets import check_system, find
from tests.cluster.build import build
from tests.cluster.cluster import REPOSITORY, RealCluster
from tests.cluster.cni import write_config
from tests.cluster.components import Component, Options
from tests.cluster.down import make_cgroups, take_down
from tests.cluster.errors import ClusterError, ComponentError, MissingError
from tests.cluster.images import write_archive
from tests.cluster.places import OWN_FOLDERS, State, node_address, node_names

Say = Callable[[str], None]

_READY_S: Final = 120.0
_POLL_S: Final = 0.1


def say_on_stderr(text: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def bring_up(folder: Path, options: Options, say: Say = say_on_stderr) -> RealCluster:
    """Return a cluster that is ready for pods; whatever was in *folder* before is cleared."""
    check_system()
    state = _fresh(folder)
    cluster = RealCluster(state, options, find(options.minor))
    try:
        _bring_up(cluster, say)
    except BaseException:
        # Whoever interrupts wants nothing left either.
        cluster.stop()
        raise
    return cluster


def bring_up_api_server(folder: Path, options: Options, say: Say = say_on_stderr) -> RealCluster:
    """Return an API server with its store and no other component; else as `bring_up`."""
    check_system()
    state = _fresh(folder)
    cluster = RealCluster(state, options, find(options.minor))
    try:
        _prepare(cluster)
        _start_namespaces(cluster)
        with cluster.network():
            start_ready(cluster, components.etcd(cluster.assets, state), say)
            start_ready(cluster, components.api_server(cluster.assets, state, options), say)
        cluster.describe()
    except BaseException:
        cluster.stop()
        raise
    return cluster


def build_and_find(minor: str) -> None:
    """Build what a *minor* lacks, unless ready programs are named."""
    with contextlib.suppress(MissingError):
        find(minor)
        return
    build(minor)


def _fresh(folder: Path) -> State:
    state = State(folder.absolute())
    for path in (state.folder, REPOSITORY):
        hidden = next((own for own in OWN_FOLDERS if path.is_relative_to(own)), None)
        if hidden is not None:
            message = f"a cluster has a {hidden} of its own: {path} must lie elsewhere"
            raise ClusterError(message)
    take_down(state)
    state.make()
    return state


def _bring_up(cluster: RealCluster, say: Say) -> None:
    started_s = time.monotonic()
    state, assets, options = cluster.state, cluster.assets, cluster.options
    node = cluster.node_names[0]
    _prepare(cluster)
    write_config(state.config / "cni")
    components.write_kubelet_config(state)
    components.write_containerd_config(
        state, cni_folder=assets.cni_folder, runc=shutil.which("runc") or "runc"
    )
    make_cgroups(state.cgroup)
    _start_namespaces(cluster)
    say("namespaces ready")
    with cluster.network():
        _start(cluster, components.containerd(assets, state))
        start_ready(cluster, components.etcd(assets, state), say)
        api_server = components.api_server(assets, state, options)
        _start(cluster, api_server)
        _import_images(cluster, say)
        _wait_ready(cluster, api_server, say)
        rest = (
            components.controller_manager(assets, state, options),
            components.scheduler(assets, state, options),
            components.kubelet(assets, state, options, node),
        )
        for component in rest:
            _start(cluster, component)
        _start_virtual_nodes(cluster)
        for component in rest:
            _wait_ready(cluster, component, say)
    _wait(cluster, "nodes", "kubelet", lambda: _nodes_ready(cluster))
    _wait(cluster, "service accounts", "kube-controller-manager", lambda: _accounts_ready(cluster))
    cluster.describe()
    say(f"Kubernetes {options.minor} ready in {time.monotonic() - started_s:.0f} s")


def _prepare(cluster: RealCluster) -> None:
    kubeconfigs.write_all(cluster.state, cluster.node_names[0])
    components.write_audit_policy(cluster.state)


def _start_namespaces(cluster: RealCluster) -> None:
    addresses = [node_address(index) for index in range(cluster.options.nodes)]
    command = [sys.executable, "-m", "tests.cluster.init", str(cluster.state.folder), *addresses]
    done = subprocess.run(  # noqa: S603 - our own module
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=_READY_S, check=False
    )
    if done.returncode != 0:
        message = f"the namespaces could not be made:\n{done.stderr}"
        raise ComponentError(message)


def _start(cluster: RealCluster, component: Component) -> None:
    cluster.start(component.name, component.command, folder=cluster.state_dir)


def start_ready(cluster: RealCluster, component: Component, say: Say = say_on_stderr) -> None:
    """Start *component* and wait until it is ready; call it in the cluster's network."""
    _start(cluster, component)
    _wait_ready(cluster, component, say)


def _start_virtual_nodes(cluster: RealCluster) -> None:
    further = list(enumerate(node_names(cluster.options.nodes)))[1:]
    if further:
        cluster.start(
            "virtual-nodes",
            (
                sys.executable,
                "-m",
                "tests.cluster.virtual_nodes",
                str(cluster.kubeconfig),
                *(f"{name}={node_address(index)}" for index, name in further),
            ),
        )


def _wait_ready(cluster: RealCluster, component: Component, say: Say) -> None:
    url = component.ready_url
    assert url is not None
    context = ssl.create_default_context(cafile=str(cluster.state.pki / "ca.crt"))
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )

    def answers() -> bool:
        with contextlib.suppress(URLError, OSError), opener.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
        return False

    waited_s = _wait(cluster, component.name, component.name, answers)
    say(f"{component.name} ready after {waited_s:.1f} s")


def _wait(cluster: RealCluster, what: str, component: str, ready: Callable[[], bool]) -> float:
    """Wait until *ready*; ComponentError with the last lines of *component* when it is not."""
    started_s = time.monotonic()
    while not ready():
        ended = cluster.ended(component)
        if ended or time.monotonic() - started_s > _READY_S:
            how = "has ended" if ended else f"not ready after {_READY_S:.0f} s"
            message = f"{what}: {how}\n{cluster.last_lines(component)}"
            raise ComponentError(message)
        time.sleep(_POLL_S)
    return time.monotonic() - started_s


def _import_images(cluster: RealCluster, say: Say) -> None:
    busybox = Path(shutil.which("busybox") or "busybox")
    applets = subprocess.run(  # noqa: S603 - the distribution's busybox
        [str(busybox), "--list"], capture_output=True, text=True, check=True
    ).stdout.split()
    archive = cluster.state.folder / "images.tar"
    write_archive(archive, busybox, [each for each in applets if each != "busybox"])
    ctr = (cluster.assets.path("ctr"), "--address", components.CONTAINERD_SOCKET)
    _wait(
        cluster,
        "containerd",
        "containerd",
        lambda: cluster.run_in(*ctr, "version", check=False).returncode == 0,
    )
    cluster.run_in(*ctr, "--namespace", "k8s.io", "images", "import", str(archive))
    archive.unlink()
    say("containerd ready, images imported")


def _nodes_ready(cluster: RealCluster) -> bool:
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    return len(nodes) == cluster.options.nodes and all(_usable(node) for node in nodes)


def _usable(node: dict[str, dict[str, list[dict[str, str]]]]) -> bool:
    """Tell whether pods may go to *node*: controllers take its taint away after it is Ready."""
    ready = {"Ready": "True"}.items()
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    return ready <= conditions.items() and not node["spec"].get("taints")


def _accounts_ready(cluster: RealCluster) -> bool:
    found = cluster.run_in(
        cluster.assets.path("kubectl"), "get", "serviceaccount", "default", check=False
    )
    return found.returncode == 0
