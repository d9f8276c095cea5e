"""The `gpuslice` command.

Each command imports what it needs when it runs: the node agent must not carry a terminal library,
and looking at GPUs must not need a cluster.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

_FAILED: Final = 2
_NOBODY_READS: Final = 141
"""As a shell tells of a program that SIGPIPE ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["node-agent"]:
        # It has its own parser: flags, environment and chart values are one model there.
        from cli.nodeagent.program import main as node_agent  # noqa: PLC0415

        return node_agent(words[1:])
    if words[:1] == ["webhook"]:
        return _webhook(words[1:])
    if words[:1] == ["extender"]:
        return _extender(words[1:])
    from cli import (  # noqa: PLC0415
        convert_command,
        demo_command,
        discover,
        doctor_command,
        explain_command,
        install_command,
    )
    from cli.extras import MissingExtraError  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="gpuslice", description="Shares of GPUs for Kubernetes.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("node-agent", help="run what serves the GPUs of this node")
    commands.add_parser("webhook", help="run the admission webhook of a cluster")
    commands.add_parser("extender", help="run the extender beside a kube-scheduler")
    discover.add_parser(commands)
    install_command.add_parser(commands)
    demo_command.add_parser(commands)
    explain_command.add_parser(commands)
    doctor_command.add_parser(commands)
    convert_command.add_parser(commands)
    chosen = parser.parse_args(words)
    try:
        status = int(chosen.run(chosen))
        sys.stdout.flush()
    except MissingExtraError as error:
        return _missing(error)
    except BrokenPipeError:
        # As `head` does when it has enough. What is still buffered must not be tried once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NOBODY_READS
    return status


def _webhook(words: Sequence[str]) -> int:
    from cli.extras import MissingExtraError, needing  # noqa: PLC0415

    try:
        with needing("webhook"):
            from webhook.__main__ import main as webhook  # noqa: PLC0415
    except MissingExtraError as error:
        return _missing(error)
    return webhook(words)


def _extender(words: Sequence[str]) -> int:
    from cli.extras import MissingExtraError, needing  # noqa: PLC0415

    try:
        with needing("extender"):
            from extender.__main__ import main as extender  # noqa: PLC0415
    except MissingExtraError as error:
        return _missing(error)
    return extender(words)


def _missing(error: Exception) -> int:
    sys.stderr.write(f"error: {error}\n")
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
