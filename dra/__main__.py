"""Run the kubelet plugin: `python -m dra`."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    settings = read_settings(sys.argv[1:] if arguments is None else arguments)
    return run(lambda: Plugin(settings))


def read_settings(arguments: Sequence[str]) -> AgentSettings:
    """Return the settings in *arguments* and the environment, and begin to log as they say."""
    settings = AgentSettings.from_arguments(arguments, program="gpuslice-node-agent")
    logs.configure(settings.log_level, json=True)
    return settings


def run(make: Callable[[], Plugin]) -> NoReturn:
    """Run the plugin that *make* returns until a signal ends it, then end the process."""
    status = _run(make)
    # Calls that wait for a silent API server have nobody left to answer, and would keep the
    # process for as long as they wait. They may be cut off anywhere, as by a crash.
    sys.stderr.flush()
    os._exit(status)


def _run(make: Callable[[], Plugin]) -> int:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    try:
        plugin = make()
        plugin.start()
    except _START_ERRORS as error:
        log.error("plugin not started", reason=str(error))
        return 1
    ended.wait()
    plugin.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
