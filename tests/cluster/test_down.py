"""Tests of what is left after a cluster: nothing, however its launcher ended."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.assets import Assets
from tests.cluster.cluster import REPOSITORY
from tests.cluster.down import cgroup_roots, take_down
from tests.cluster.places import State
from tests.cluster.process import Records
from tests.cluster.test_real_cluster import pod

_TUNABLES: Final = ("kernel/panic", "vm/overcommit_memory", "net/ipv4/ip_forward")
_FOLDERS: Final = (
    "/etc/cdi",
    "/etc/cni",
    "/etc/kubernetes",
    "/run/containerd",
    "/run/runc",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)


def command(state: State, *words: str) -> list[str]:
    """Return the command line that a person would write."""
    return [sys.executable, "-m", "tests.cluster", f"--state={state.folder}", *words]


def run(state: State, *words: str) -> str:
    """Run a command to its end and return what it printed."""
    done = subprocess.run(  # noqa: S603 - our own module
        command(state, *words), cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def traces(state: State) -> list[str]:
    """Return what of a cluster can still be seen on this machine."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(state) in line]
    processes = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(state.folder).encode() in _read(path)
    ]
    cgroups = [str(root) for root in cgroup_roots(state.cgroup) if root.exists()]
    files = [str(state.folder)] if state.folder.exists() else []
    return [*mounts, *processes, *cgroups, *files]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def machine() -> tuple[object, ...]:
    """Return what a cluster must not change of the machine."""
    links = Path("/proc/self/net/dev").read_text().splitlines()[2:]
    return (
        [Path(folder).exists() for folder in _FOLDERS],
        [Path("/proc/sys", name).read_text() for name in _TUNABLES],
        [line.split(":")[0] for line in links],
    )


def test_nothing_to_take_down(tmp_path: Path) -> None:
    """Taking down where nothing is up does nothing and says so."""
    state = State(tmp_path / "none")
    assert take_down(state) is False
    assert "nothing was up" in run(state, "down")


@pytest.mark.cluster
def test_killed_launcher_is_cleared_by_the_next(assets: Assets, session_folder: Path) -> None:
    """A launcher killed half-way leaves a cluster that the next `up` replaces and `down` ends."""
    before = machine()
    state = State(session_folder / "killed")
    up = command(state, "up", "--k8s", assets.minor)
    with subprocess.Popen(  # noqa: S603 - our own module
        up, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stderr is not None
        for line in launcher.stderr:
            if line.startswith("kube-apiserver ready"):
                launcher.send_signal(signal.SIGKILL)
                break
    orphans = Records(state.processes).read()
    assert {"init", "etcd", "kube-apiserver", "containerd"} <= {each.name for each in orphans}
    assert all(each.alive() for each in orphans if each.name in {"init", "etcd"})
    run(state, "up", "--k8s", assets.minor)
    assert not any(each.alive() for each in orphans)
    body = pod("left")
    (state.folder / "pod.json").write_text(json.dumps(body))
    kubectl = (assets.path("kubectl"), "apply", "-f", str(state.folder / "pod.json"))
    run(state, "run", *kubectl)
    wait = ("wait", "pod", "left", "--for=condition=Ready", "--timeout=60s")
    run(state, "run", assets.path("kubectl"), *wait)
    assert "kubelet" in run(state, "status")
    assert "taken down" in run(state, "down")
    assert traces(state) == []
    assert machine() == before
