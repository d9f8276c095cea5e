"""The real node agent on a simulated node: only NVML and the host's files are stood in for.

`python -m cli.simulated_agent --gpus FILE -- FLAGS` puts the simulated library below NVIDIA's
binding, in this process, and then runs the agent with FLAGS as anybody would. FLAGS point to a
host's tree that `sim.driverroot` has built. Nobody mounts a service account's directory for it:
`--service-account DIR` names one, so that it can run with a pod's identity too.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# Before anything else, and before anything else that logs: see there.
from dra import lean  # noqa: F401  # isort: skip
from kube import logs  # noqa: F401  # isort: skip

from cli.nodeagent.program import read_settings, run
from kube.config import in_cluster_config
from sim import nvml
from sim.driverroot import numbers_of


def main(arguments: Sequence[str]) -> int:
    """Run the agent until it is told to end."""
    parser = argparse.ArgumentParser(prog="simulated-agent")
    parser.add_argument("--gpus", type=Path, required=True, help="the node's GPUs, in YAML")
    parser.add_argument("--service-account", type=Path, help="directory with token and ca.crt")
    parser.add_argument("flags", nargs="*", help="the agent's own flags, after --")
    chosen = parser.parse_args(arguments)
    nvml.install(chosen.gpus)
    settings = read_settings(chosen.flags)
    account = chosen.service_account
    identity = None if account is None else in_cluster_config(account)
    # A simulation without the right to make device nodes has files that stand for them.
    return run(settings, device_numbers=numbers_of, identity=identity)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
