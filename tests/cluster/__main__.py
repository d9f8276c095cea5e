"""Build, bring up, enter and take down a real cluster by hand: `python -m tests.cluster`."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.cluster.build import build
from tests.cluster.cluster import RealCluster
from tests.cluster.components import Options
from tests.cluster.down import take_down
from tests.cluster.errors import ClusterError
from tests.cluster.go_modules import minors
from tests.cluster.places import State, default_state
from tests.cluster.process import Records
from tests.cluster.up import bring_up, build_and_find, say_on_stderr


def gates(text: str) -> dict[str, bool]:
    """Return feature gates written as A=true,B=false."""
    switched = {}
    for pair in text.split(","):
        name, _, value = pair.partition("=")
        if not name or value not in {"true", "false"}:
            message = f"{pair!r} is not NAME=true or NAME=false"
            raise argparse.ArgumentTypeError(message)
        switched[name] = value == "true"
    return switched


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    result.add_argument("--state", type=Path, default=default_state(), help="the state folder")
    commands = result.add_subparsers(dest="command", required=True)
    _add_release(commands.add_parser("build", help="build the programs"))
    up = commands.add_parser("up", help="bring a cluster up")
    _add_release(up)
    up.add_argument("--nodes", type=int, default=1, help="how many; the first has a kubelet")
    up.add_argument("--gates", type=gates, default={}, help="feature gates: A=true,B=false")
    up.add_argument("--apis", default="", help="API versions to serve besides, by comma")
    commands.add_parser("down", help="take it down")
    commands.add_parser("status", help="say what runs")
    commands.add_parser("shell", help="a shell inside, with kubectl ready")
    run = commands.add_parser("run", help="run a command inside")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    return result


def _add_release(command: argparse.ArgumentParser) -> None:
    releases = minors()
    command.add_argument(
        "--k8s", choices=releases, default=releases[-1], help="the Kubernetes minor"
    )


def _up(arguments: argparse.Namespace) -> int:
    build_and_find(arguments.k8s)
    apis = tuple(each for each in arguments.apis.split(",") if each)
    options = Options(minor=arguments.k8s, nodes=arguments.nodes, gates=arguments.gates, apis=apis)
    bring_up(arguments.state, options)
    say_on_stderr("enter it with `python -m tests.cluster shell`")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    cluster = RealCluster.attach(arguments.state)
    for record in Records(cluster.state.processes).read():
        state = "running" if record.alive() else "ended"
        sys.stdout.write(f"{record.name:<24} {record.pid:>8} {state}\n")
    sys.stdout.write(cluster.kubectl("get", "nodes", "-o", "wide"))
    return 0


def _enter(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    cluster = RealCluster.attach(arguments.state)
    enter = ["nsenter", f"--target={cluster.init.pid}", "--net", "--mount", "--pid", "--"]
    inside = ["env", f"--chdir={Path.cwd()}", *command]
    environment = {**os.environ, **cluster.environment()}
    os.execvpe("nsenter", [*enter, *inside], environment)  # noqa: S606, S607 - no shell wanted


def _down(arguments: argparse.Namespace) -> int:
    gone = take_down(State(arguments.state.absolute()))
    say_on_stderr("taken down" if gone else "nothing was up")
    return 0


def _build(arguments: argparse.Namespace) -> int:
    build(arguments.k8s)
    return 0


def _shell(arguments: argparse.Namespace) -> int:
    return _enter(arguments, [os.environ.get("SHELL", "/bin/sh")])


def _run(arguments: argparse.Namespace) -> int:
    return _enter(arguments, arguments.arguments)


_COMMANDS: Final = {
    "build": _build,
    "up": _up,
    "down": _down,
    "status": _status,
    "shell": _shell,
    "run": _run,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; an expected failure is one message and exit status 1."""
    arguments = parser().parse_args(words)
    try:
        return _COMMANDS[arguments.command](arguments)
    except ClusterError as error:
        say_on_stderr(str(error))
        return 1


if __name__ == "__main__":
    # A reader such as `head` may leave before the end.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
