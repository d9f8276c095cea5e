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
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    try:
        program = make(ended)
        program.start()
    except errors as error:
        if ended.is_set():
            return 0
        log.error("plugin not started", reason=str(error))
        return 1
    ended.wait()
    program.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
