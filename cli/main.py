"""The `gpuslice` command.

Each command imports what it needs when it runs: the node agent must not carry a terminal library,
and looking at GPUs must not need a cluster.
"""

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["node-agent"]:
        # It has its own parser: flags, environment and chart values are one model there.
        from dra.__main__ import main as node_agent  # noqa: PLC0415

        return node_agent(words[1:])
    if words[:1] == ["webhook"]:
        from webhook.__main__ import main as webhook  # noqa: PLC0415

        return webhook(words[1:])
    from cli import convert_command, demo_command, discover, explain_command  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="gpuslice", description="Shares of GPUs for Kubernetes.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("node-agent", help="run the kubelet plugin of this node")
    commands.add_parser("webhook", help="run the admission webhook of a cluster")
    discover.add_parser(commands)
    demo_command.add_parser(commands)
    explain_command.add_parser(commands)
    convert_command.add_parser(commands)
    chosen = parser.parse_args(words)
    return int(chosen.run(chosen))


if __name__ == "__main__":
    sys.exit(main())
