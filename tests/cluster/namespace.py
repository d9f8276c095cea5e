"""Enter the namespaces of a cluster: network, mounts and processes.

A namespace for processes lets one kill end everything in it, container shims and containers
included; its first process holds all three (see `init`). The network namespace can be entered by
one thread alone, and sockets stay in the one that they were made in, so a test reaches the API
server from its own process; mounts can only be entered by a new process.
"""

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from tests.cluster.process import ProcessRecord

NEW_MOUNTS: Final = 0x00020000
NEW_PROCESSES: Final = 0x20000000
NEW_NETWORK: Final = 0x40000000

# os.unshare and os.setns came with Python 3.12.
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Put this process into new namespaces of the kinds in *flags*."""
    _check(_LIBC.unshare(flags), "unshare")


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Put the calling thread into the network of process *pid* for the block.

    Threads that it starts in the block stay there.
    """
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set(f"/proc/{pid}/ns/net", NEW_NETWORK)
        try:
            yield
        finally:
            _check(_LIBC.setns(own, NEW_NETWORK), "setns")
    finally:
        os.close(own)


def command_inside(pid: int, command: Sequence[str], folder: Path) -> list[str]:
    """Return the command that runs *command* in mounts and network of process *pid*."""
    enter = ["nsenter", f"--target={pid}", "--net", "--mount", "--"]
    # Entering mounts goes to their root, so the folder is entered afterwards.
    return [*enter, "env", f"--chdir={folder}", *command]


def spawn(
    init: ProcessRecord,
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    streams: tuple[int | IO[Any] | None, int | IO[Any] | None, int | IO[Any] | None] | None = None,
) -> subprocess.Popen[Any]:
    """Start *command* inside the namespaces; its pid is the command's own, seen from here.

    *streams* are its standard input, output and error.
    """
    stdin, stdout, stderr = streams or (None, None, None)
    started: list[subprocess.Popen[Any]] = []
    failed: list[OSError] = []

    def start() -> None:
        try:
            # Counts for the children of this thread alone, which ends at once.
            _set(f"/proc/{init.pid}/ns/pid", NEW_PROCESSES)
            started.append(
                subprocess.Popen(  # noqa: S603 - the tests' own commands
                    command_inside(init.pid, command, folder),
                    env=None if environment is None else {**os.environ, **environment},
                    start_new_session=True,
                    text=True,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                )
            )
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=start, name="spawn")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return started[0]


def _set(path: str, kind: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_LIBC.setns(descriptor, kind), "setns")
    finally:
        os.close(descriptor)


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
