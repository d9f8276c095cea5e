"""A slot is alive while the process lives that wrote it, and no other with its number."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hami.monitor.processes import HostProcesses
from tests.agent.mounts import may_mount
from tests.patience import eventually

POD = "0a1b2c3d-0000-4000-8000-000000000001"
OTHER = "0a1b2c3d-0000-4000-8000-000000000002"
PODS = frozenset({POD})


class Proc:
    """A /proc of the host, or of a node that is a container."""

    def __init__(self, root: Path, *, is_first: bool = True) -> None:
        self.root = root
        (root / "1/ns").mkdir(parents=True)
        number = 4026531836 if is_first else 4026532999
        (root / "1/ns/pid").symlink_to(f"pid:[{number}]")
        (root / "self").mkdir()

    def add(
        self, host_pid: int, *own: int, cgroup: str = "", start: int = 100, state: str = "S"
    ) -> None:
        """Add a process with these numbers in the namespaces below the host's."""
        place = self.root / str(host_pid)
        place.mkdir(exist_ok=True)
        fields = [state, *["0"] * 18, str(start), *["0"] * 30]
        (place / "stat").write_text(f"{host_pid} (a (name) x) {' '.join(fields)}\n")
        numbers = "\t".join(map(str, (host_pid, *own)))
        (place / "status").write_text(f"Name:\tx\nNSpid:\t{numbers}\nThreads:\t1\n")
        (place / "cgroup").write_text(f"0::/{cgroup}\n")
        (place / "comm").write_text("python3\n")

    def remove(self, host_pid: int) -> None:
        """End a process."""
        for path in (self.root / str(host_pid)).iterdir():
            path.unlink()
        (self.root / str(host_pid)).rmdir()


def slice_of(uid: str) -> str:
    """Return the control group of a container under systemd."""
    name = uid.replace("-", "_")
    return f"kubepods.slice/kubepods-pod{name}.slice/cri-containerd-{'ab' * 32}.scope"


def test_a_process_with_both_numbers_lives(tmp_path: Path) -> None:
    """The host's number leads to it, its own number and its control group confirm it."""
    proc = Proc(tmp_path)
    proc.add(4711, 7, cgroup=slice_of(POD))
    alive = HostProcesses(tmp_path).of_pods(PODS)
    assert alive(7, 4711)
    assert not alive(8, 4711)
    assert not alive(7, 4712)


def test_a_zombie_does_not_live(tmp_path: Path) -> None:
    """What has ended and is not waited for uses nothing."""
    proc = Proc(tmp_path)
    proc.add(4711, 7, cgroup=slice_of(POD), state="Z")
    assert not HostProcesses(tmp_path).of_pods(PODS)(7, 4711)


def test_a_process_of_another_pod_is_another(tmp_path: Path) -> None:
    """The host's number came again in another pod, with the same number there."""
    proc = Proc(tmp_path)
    proc.add(4711, 7, cgroup=f"kubepods/burstable/pod{OTHER}/abc")
    processes = HostProcesses(tmp_path)
    assert not processes.of_pods(PODS)(7, 4711)
    assert processes.of_pods(frozenset({OTHER}))(7, 4711)


def test_a_number_that_came_again_is_another_process(tmp_path: Path) -> None:
    """In the same pod only the time of its start tells it from the one before."""
    proc = Proc(tmp_path)
    proc.add(4711, 7, cgroup=slice_of(POD), start=100)
    processes = HostProcesses(tmp_path)
    for _ in range(3):
        processes.begin()
        assert processes.of_pods(PODS)(7, 4711)
    proc.add(4711, 7, cgroup=slice_of(POD), start=200)
    for _ in range(3):
        processes.begin()
        assert not processes.of_pods(PODS)(7, 4711)
    # The slot is gone for a look, and then there is one again.
    processes.begin()
    processes.begin()
    assert processes.of_pods(PODS)(7, 4711)


def test_without_the_hosts_number_it_is_looked_for_in_its_pod(tmp_path: Path) -> None:
    """The library had not found it; a process of another pod has the same number."""
    proc = Proc(tmp_path)
    proc.add(4710, 7, cgroup=slice_of(OTHER))
    proc.add(900, 7)
    alive = HostProcesses(tmp_path).of_pods(PODS)
    assert not alive(7, 0)
    proc.add(4711, 7, cgroup=slice_of(POD))
    processes = HostProcesses(tmp_path)
    assert processes.of_pods(PODS)(7, 0)
    proc.remove(4711)
    processes.begin()
    assert not processes.of_pods(PODS)(7, 0)


def test_a_node_that_is_a_container(tmp_path: Path) -> None:
    """The driver's numbers are not those of /proc there: the process is looked for."""
    proc = Proc(tmp_path / "nested", is_first=False)
    proc.add(300, 7, cgroup=slice_of(POD))
    assert HostProcesses(proc.root).of_pods(PODS)(7, 99_300)
    host = Proc(tmp_path / "host")
    host.add(300, 7, cgroup=slice_of(POD))
    assert not HostProcesses(host.root).of_pods(PODS)(7, 99_300)


def test_a_process_whose_control_group_names_no_pod(tmp_path: Path) -> None:
    """It counts with both its numbers, or with one if it has no other."""
    proc = Proc(tmp_path)
    proc.add(4711)
    proc.add(4712, 4711)
    proc.add(4713, 8)
    alive = HostProcesses(tmp_path).of_pods(PODS)
    assert alive(4711, 4711)
    assert alive(4711, 4712)
    assert not alive(4712, 4712)
    assert not alive(8, 0)


def test_whose_a_process_is(tmp_path: Path) -> None:
    """By the control group, under both drivers, for static pods too."""
    proc = Proc(tmp_path)
    proc.add(1001, cgroup=slice_of(POD))
    proc.add(1002, cgroup=f"kubepods/besteffort/pod{POD}/{'ab' * 32}")
    proc.add(1003, cgroup=f"kubepods/pod{'f' * 32}/x")
    proc.add(1004, cgroup="system.slice/dcgm.service")
    processes = HostProcesses(tmp_path)
    assert [processes.pod_of(pid) for pid in range(1001, 1006)] == [
        POD, POD, "f" * 32, "", None
    ]  # fmt: skip
    assert processes.name_of(1004) == "python3"
    assert not processes.name_of(1005)


def test_real_processes() -> None:
    """This process lives, a child lives until it has ended, and its number is then nobody's."""
    alive = HostProcesses().of_pods(PODS)
    assert alive(os.getpid(), os.getpid())
    assert alive(os.getpid(), 0)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert alive(child.pid, child.pid)
    child.kill()
    child.wait()
    assert child.stdin is not None
    child.stdin.close()
    assert not alive(child.pid, child.pid)


@pytest.mark.skipif(not may_mount(), reason="the right to make namespaces is needed")
def test_a_real_process_in_a_namespace_of_its_own() -> None:
    """The kernel tells both its numbers, and it lives until it is killed."""
    words = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", "input()"]
    child = subprocess.Popen(words, stdin=subprocess.PIPE)  # noqa: S603 - our own program
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    host_pid = int(eventually(lambda: children.read_text().split())[0])
    alive = HostProcesses().of_pods(PODS)
    assert alive(1, host_pid)
    assert not alive(2, host_pid)
    assert not alive(host_pid, host_pid)
    child.kill()
    child.wait()
    assert child.stdin is not None
    child.stdin.close()
    eventually(lambda: not alive(1, host_pid))
