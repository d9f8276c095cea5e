"""A reboot of the node with a kubelet: all that a power cut ends, and all that only memory held.

Agent, kubelet, containerd, its shims and every container are killed at once; what was mounted
below /run and /var/lib and what lay in /run is gone, CDI specs and usage regions among it; the
kernel has another boot id. The disk stays: the state of kubelet, containerd and plugin. The
GPU Operator's driver container would be there again some time later, so its folder stays too.
"""

import contextlib
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cluster.cluster import RealCluster
from tests.cluster.components import CONTAINERD_SOCKET
from tests.cluster.down import cgroup_roots
from tests.cluster.process import observe
from tests.cluster.scenes.agents import Host
from tests.cluster.scenes.driver import Driver
from tests.cluster.scenes.restarts import CONTAINERD, KUBELET, running, start
from tests.patience import eventually

_KERNEL: Final = "/proc/sys/kernel/random/boot_id"
_SHIM: Final = "containerd-shim-runc-v2"
_KEPT: Final = ("nvidia", "mount")
# Innermost first, and what another is mounted over twice.
_UNMOUNT: Final = """\
cut -d' ' -f5 /proc/self/mountinfo | grep -E '^(/run|/var/lib)/' | sort -r |
while read -r point; do umount -l "$point" || exit 1; done
"""


@contextlib.contextmanager
def rebooting(driver: Driver) -> Iterator[None]:
    """Have the node dead for the block and boot it afterwards."""
    cluster, host = driver.cluster, driver.first.host
    driver.first.kill()
    for name in (KUBELET, CONTAINERD):
        running(cluster, name).kill()
    try:
        eventually(lambda: not _kill_containers(cluster))
        eventually(lambda: _no_cgroups(cluster))
        cluster.run_in("sh", "-c", _UNMOUNT)
        _empty(cluster.outside("/run"))
        _name_boot(cluster, host)
        yield
    finally:
        start(cluster, CONTAINERD)
        # Kubelet ends without it, and nobody here starts it again.
        eventually(cluster.outside(CONTAINERD_SOCKET).is_socket)
        start(cluster, KUBELET)
        driver.start_first()


def _kill_containers(cluster: RealCluster) -> bool:
    """Kill shims and containers of the cluster, and tell whether there were any."""
    running_now = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    doomed = [each for each in running_now if _is_container(cluster, each)]
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            observe("container", pid).kill()
    return bool(doomed)


def _is_container(cluster: RealCluster, pid: int) -> bool:
    process = Path("/proc", str(pid))
    try:
        if cluster.state.cgroup in (process / "cgroup").read_text():
            return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
        is_shim = (process / "exe").readlink().name == _SHIM
        own = (process / "ns/net").readlink()
    except OSError:
        return False
    return is_shim and own == Path("/proc", str(cluster.init.pid), "ns/net").readlink()


def _no_cgroups(cluster: RealCluster) -> bool:
    """Remove the cgroups of pods, for which kubelet would look at each start, and tell if it did.

    A killed process leaves its cgroup a moment after it is gone.
    """
    roots = cgroup_roots(cluster.state.cgroup)
    folders = [each for root in roots for each in root.rglob("*") if each.is_dir()]
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
    return not any(each.exists() for each in folders)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name in _KEPT:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    (folder / "cdi").mkdir()


def _name_boot(cluster: RealCluster, host: Host) -> None:
    """Give the boot a new id, for kubelet in the kernel's file and for the agent in its tree."""
    host.boot_id.write_text(f"{uuid.uuid4()}\n")
    cluster.run_in("mount", "--bind", str(host.boot_id), _KERNEL)
