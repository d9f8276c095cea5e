"""Runs a server program until a signal ends it, and then ends the process.

The first SIGTERM or SIGINT asks it to end in order, the second ends it at once. Threads may still
wait for a silent API server then: they have nobody left to answer, and would keep the process for
as long as they wait.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn, Protocol

import structlog

log = structlog.get_logger(__name__)


class Program(Protocol):
    """What is run, in the loop that it was made in."""

    async def run(self) -> None:
        """Serve until `stop`; raises when a part has failed."""

    def stop(self) -> None:
        """Begin to end."""


def run_until_signalled(
    make: Callable[[], Program], *, name: str, start_errors: tuple[type[Exception], ...]
) -> NoReturn:
    """Run what *make* returns; *start_errors* of it are one line of the log and status 1."""
    with asyncio.Runner() as runner:
        status = runner.run(_run(make, name, start_errors))
        sys.stderr.flush()
        os._exit(status)


async def _run(
    make: Callable[[], Program], name: str, start_errors: tuple[type[Exception], ...]
) -> int:
    try:
        program = make()
    except start_errors as error:
        event = f"{name} not started"
        log.error(event, reason=str(error))
        return 1
    signalled: list[int] = []

    def end(number: int) -> None:
        if signalled:
            os._exit(128 + number)
        signalled.append(number)
        program.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    try:
        await program.run()
    except Exception:  # the top of the program
        event = f"{name} failed"
        log.exception(event)
        return 1
    return 0
