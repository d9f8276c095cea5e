"""Run the scheduler extender: `python -m extender`."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

# Before anything else that logs: see there.
from kube import logs  # isort: skip

import structlog

from extender.composition import make_parts
from extender.parts import MakeParts, StartError
from extender.program import Program
from extender.settings import ExtenderSettings
from kube.errors import ConfigError

log = structlog.get_logger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    settings = ExtenderSettings.from_arguments(
        sys.argv[1:] if arguments is None else arguments, program="gpuslice-extender"
    )
    logs.configure(settings.log_level, json=settings.log_format == "json")
    run(settings, make_parts)


def run(settings: ExtenderSettings, parts: MakeParts) -> NoReturn:
    """Run until a signal ends it, then end the process."""
    with asyncio.Runner() as runner:
        status = runner.run(_run(settings, parts))
        # Calls that wait for a silent API server would keep the process for as long as they wait.
        sys.stderr.flush()
        os._exit(status)


async def _run(settings: ExtenderSettings, parts: MakeParts) -> int:
    try:
        program = Program(settings, parts)
    except (ConfigError, StartError) as error:
        log.error("extender not started", reason=str(error))
        return 1
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _signalled, program, number)
    try:
        await program.run()
    except Exception:  # the top of the program
        log.exception("extender failed")
        return 1
    return 0


_signals: list[int] = []


def _signalled(program: Program, number: int) -> None:
    if _signals:
        os._exit(128 + number)
    _signals.append(number)
    program.stop()


if __name__ == "__main__":
    sys.exit(main())
