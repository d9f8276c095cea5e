"""Run the admission webhook: `python -m webhook`."""

import sys
from collections.abc import Sequence
from typing import NoReturn

# Before anything else that logs: see there.
from kube import logs  # isort: skip

from kube.errors import ConfigError
from kube.running import run_until_signalled
from webhook.composition import make_parts
from webhook.parts import MakeParts, StartError
from webhook.program import Program
from webhook.settings import WebhookSettings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    settings = WebhookSettings.from_arguments(
        sys.argv[1:] if arguments is None else arguments, program="gpuslice-webhook"
    )
    logs.configure(settings.log_level, json=settings.log_format == "json")
    run(settings, make_parts)


def run(settings: WebhookSettings, parts: MakeParts) -> NoReturn:
    """Run until a signal ends it, then end the process."""
    run_until_signalled(
        lambda: Program(settings, parts), name="webhook", start_errors=(ConfigError, StartError)
    )


if __name__ == "__main__":
    sys.exit(main())
