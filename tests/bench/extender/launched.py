"""The extender as it starts in a pod: `python -m tests.bench.extender.launched URL FLAGS...`.

There it has its identity from files, of which only the address is left here: the API server of a
benchmark speaks plain HTTP. A kubeconfig would have it load the official client, half a second and
17 MB that no pod pays.
"""

import sys

# Before anything else that logs: see there.
from kube import logs  # isort: skip

from extender.composition import make_parts
from extender.program import Program
from extender.settings import ExtenderSettings
from kube.config import ClientConfig
from kube.running import run_until_signalled


def main(url: str, flags: list[str]) -> None:
    """Run until SIGTERM, as `gpuslice extender` does."""
    settings = ExtenderSettings.from_arguments(flags, program="gpuslice-extender")
    logs.configure(settings.log_level, json=settings.log_format == "json")
    identity = ClientConfig(host=url)
    run_until_signalled(
        lambda: Program(settings, make_parts, identity=identity), name="extender", start_errors=()
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
