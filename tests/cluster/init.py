"""The first process of a cluster's namespaces: makes mounts and links, then reaps orphans.

Run as `python -m tests.cluster.init STATE ADDRESSES...`. It returns when the namespaces are ready;
its child stays, is recorded before it does anything, and ends with whoever kills it. All else of
the cluster ends with it, for it is the first process of its process namespace.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.cluster.namespace import NEW_MOUNTS, NEW_NETWORK, NEW_PROCESSES, unshare
from tests.cluster.places import API_SERVICE_ADDRESS, BRIDGE, OWN_FOLDERS, State
from tests.cluster.process import Records, observe

NAME: Final = "init"

# What kubelet sets on the whole machine unless it is so already (pkg/kubelet/cm, kernel
# tunables); it finds these values in here instead, and the machine keeps its own.
_TUNABLES: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def mount_commands(state: State) -> list[list[str]]:
    """Return the commands that give the cluster folders of its own."""
    return [
        ["mount", "--make-rprivate", "/"],
        ["mount", "-t", "proc", "proc", "/proc"],
        *(["mount", "--bind", str(state.behind(own)), own] for own in OWN_FOLDERS),
    ]


def network_commands(addresses: Sequence[str]) -> list[list[str]]:
    """Return the commands that make loopback and the bridge with the nodes' *addresses*."""
    return [
        ["ip", "link", "set", "lo", "up"],
        ["ip", "link", "add", BRIDGE, "type", "bridge"],
        ["ip", "link", "set", BRIDGE, "up"],
        *(["ip", "address", "add", f"{each}/24", "dev", BRIDGE] for each in addresses),
        ["ip", "address", "add", f"{API_SERVICE_ADDRESS}/32", "dev", BRIDGE],
        # Nothing lies behind it; some programs want a default route to find their own address.
        ["ip", "route", "add", "default", "dev", BRIDGE],
    ]


def _run(commands: Sequence[Sequence[str]]) -> None:
    for command in commands:
        subprocess.run(command, check=True)  # noqa: S603 - built above


def _bind_files(state: State) -> None:
    """Put files of ours over those that name other machines or hold the kernel's settings."""
    # Nobody listens there, so that a lookup fails at once instead of after a time-out.
    files = {
        "/etc/resolv.conf": "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n",
        "/etc/hosts": "127.0.0.1 localhost\n",
        **{f"/proc/sys/{name}": f"{value}\n" for name, value in _TUNABLES.items()},
    }
    for target, text in files.items():
        path = Path(os.path.realpath(target))
        if path.is_relative_to("/run"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif path.exists():
            own = state.config / target.lstrip("/").replace("/", "-")
            own.write_text(text)
            _run([["mount", "--bind", str(own), str(path)]])


def _prepare(state: State, addresses: Sequence[str]) -> None:
    _run(mount_commands(state))
    _bind_files(state)
    # Containers and kubelet hand mounts to one another within these mounts.
    _run([["mount", "--make-rshared", "/"]])
    _run(network_commands(addresses))
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _reap() -> None:
    """Reap whatever ends in here, for ever."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        signal.sigwait([signal.SIGCHLD])
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            continue


def _child(state: State, addresses: Sequence[str], go: int, ready: int) -> None:
    os.setsid()
    if os.read(go, 1) != b"1":
        return
    _prepare(state, addresses)
    log = os.open(state.logs / f"{NAME}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in enumerate((nothing, log, log)):
        os.dup2(source, target)
    os.write(ready, b"1")
    os.close(ready)
    _reap()


def main(arguments: Sequence[str]) -> int:
    """Make the namespaces; the exit status is 0 when they are ready."""
    state, addresses = State(Path(arguments[0])), arguments[1:]
    unshare(NEW_MOUNTS | NEW_NETWORK | NEW_PROCESSES)
    go_read, go_write = os.pipe()
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go_write)
        os.close(ready_read)
        try:
            _child(state, addresses, go_read, ready_write)
        finally:
            os._exit(1)
    os.close(go_read)
    os.close(ready_write)
    # Without this record nobody could end it later, so it waits for it.
    Records(state.processes).add(observe(NAME, pid))
    os.write(go_write, b"1")
    return 0 if os.read(ready_read, 1) == b"1" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
