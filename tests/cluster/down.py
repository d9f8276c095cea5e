"""Take a cluster down, also one whose launcher was killed.

One kill does it: the recorded first process of the process namespace takes all others with it,
and with them end the mounts and links. What remains is cgroups and the state folder.
"""

import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.cluster.errors import ClusterError
from tests.cluster.places import State
from tests.cluster.process import Records

_CGROUPS: Final = Path("/sys/fs/cgroup")
_PATIENCE_S: Final = 30.0


def take_down(state: State, reap: Callable[[], object] = lambda: None) -> bool:
    """End all processes of a cluster and remove what it left; false when there was nothing.

    *reap* collects the caller's own children among them, which cannot go before they are.
    """
    if not state.folder.exists():
        return False
    records = Records(state.processes).read()
    for record in records:
        record.kill()
    deadline_s = time.monotonic() + _PATIENCE_S
    while left := [record for record in records if record.alive()]:
        reap()
        if time.monotonic() > deadline_s:
            names = ", ".join(f"{record.name} ({record.pid})" for record in left)
            message = f"still running after a kill: {names}"
            raise ClusterError(message)
        time.sleep(0.02)
    reap()
    for root in cgroup_roots(state.cgroup):
        _remove_cgroup(root, deadline_s)
    shutil.rmtree(state.folder)
    return True


def cgroup_roots(cgroup: str, mounted: Path = _CGROUPS) -> list[Path]:
    """Return where *cgroup* lies: in each hierarchy of version 1, or in the one of version 2."""
    relative = cgroup.lstrip("/")
    if (mounted / "cgroup.controllers").exists():
        return [mounted / relative]
    hierarchies = (each for each in mounted.iterdir() if each.is_dir() and not each.is_symlink())
    return [each / relative for each in sorted(hierarchies) if (each / "cgroup.procs").exists()]


def make_cgroups(cgroup: str) -> None:
    """Make *cgroup* in every hierarchy, for kubelet wants its root to be there."""
    for root in cgroup_roots(cgroup):
        root.mkdir(exist_ok=True)


def _remove_cgroup(root: Path, deadline_s: float) -> None:
    if not root.exists():
        return
    folders = [root, *(each for each in root.rglob("*") if each.is_dir())]
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        while folder.exists():
            # A killed process leaves its cgroup a moment after it is gone.
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            if time.monotonic() > deadline_s:
                message = f"cgroup in use: {folder}"
                raise ClusterError(message)
            time.sleep(0.02)
