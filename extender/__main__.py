"""Run the scheduler extender: `python -m extender`."""

import sys
from collections.abc import Sequence
from typing import NoReturn

# Before anything else that logs: see there.
from kube import logs  # isort: skip

from extender.composition import make_parts
from extender.parts import MakeParts, StartError
from extender.program import Program
from extender.settings import ExtenderSettings
from kube.errors import ConfigError
from kube.running import run_until_signalled


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    settings = ExtenderSettings.from_arguments(
        sys.argv[1:] if arguments is None else arguments, program="gpuslice-extender"
    )
    logs.configure(settings.log_level, json=settings.log_format == "json")
    run(settings, make_parts)


def run(settings: ExtenderSettings, parts: MakeParts) -> NoReturn:
    """Run until a signal ends it, then end the process."""
    run_until_signalled(
        lambda: Program(settings, parts), name="extender", start_errors=(ConfigError, StartError)
    )


if __name__ == "__main__":
    sys.exit(main())
