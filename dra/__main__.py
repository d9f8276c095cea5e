"""Run the kubelet plugin: `python -m dra`."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

# Before anything else, and before anything else that logs: see there.
from dra import lean  # isort: skip
from kube import logs  # isort: skip

import structlog

from cdi.errors import StoreError
from dra.journal import DamagedError
from dra.plugin import Plugin
from dra.settings import AgentSettings
from dra.sockets import SocketPathTooLongError
from dra.state import StateError
from kube.errors import ConfigError

lean.imports_done()
log = structlog.get_logger(__name__)

_ENDING = (signal.SIGTERM, signal.SIGINT)
_MAKING_S = 0.5
_START_ERRORS = (
    ConfigError,
    DamagedError,
    OSError,
    SocketPathTooLongError,
    StateError,
    StoreError,
)


class Program(Protocol):
    """What runs until the process is told to end."""

    def start(self) -> None:
        """Start everything; raises what makes a start impossible."""

    def stop(self) -> None:
        """End everything in order."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    settings = read_settings(sys.argv[1:] if arguments is None else arguments)
    return run(lambda _ended: Plugin(settings))


def read_settings(arguments: Sequence[str]) -> AgentSettings:
    """Return the settings in *arguments* and the environment, and begin to log as they say."""
    settings = AgentSettings.from_arguments(arguments, program="gpuslice-node-agent")
    logs.configure(settings.log_level, json=True)
    return settings


def run(
    make: Callable[[threading.Event], Program], *, errors: tuple[type[Exception], ...] = ()
) -> NoReturn:
    """Run the program that *make* returns until a signal ends it, then end the process.

    *make* gets what the signal sets, so that it may wait for something. Of *errors*, as of the
    plugin's own, the reason is logged.
    """
    status = _run(make, (*_START_ERRORS, *errors))
    # Calls that wait for a silent API server have nobody left to answer, and would keep the
    # process for as long as they wait. They may be cut off anywhere, as by a crash.
    sys.stderr.flush()
    os._exit(status)


def _run(make: Callable[[threading.Event], Program], errors: tuple[type[Exception], ...]) -> int:
    made = threading.Event()
    ended = _end_of_process(made)
    try:
        program = make(ended)
        made.set()
        program.start()
    except errors as error:
        if ended.is_set():
            return 0
        log.error("plugin not started", reason=str(error))
        return 1
    ended.wait()
    program.stop()
    return 0


def _end_of_process(made: threading.Event) -> threading.Event:
    """Return what a signal sets that asks the process to end; before any thread is started.

    As long as no program is *made* there is nothing to stop, and what it is made from may have to
    be asked of an API server that says nothing.

    A thread waits for it. A handler would not run when the signal comes just before the main thread
    begins to wait, as Python runs handlers between its own instructions and nothing else wakes it.
    """
    ended = threading.Event()
    # Threads take this over from the one that starts them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)

    def wait() -> None:
        signal.sigwait(_ENDING)
        ended.set()
        if not made.wait(_MAKING_S):
            log.info("ended before anything was begun")
            sys.stderr.flush()
            os._exit(0)

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return ended


if __name__ == "__main__":
    sys.exit(main())
