"""`gpuslice demo`: the main job end to end on this machine, in half a minute.

It exits with 0 only when everything that was read back is what the manifests ask, so it can be
run as a test of an installation.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from cli.extras import needing

_DETAIL_OF = "one-share"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `demo` to the commands of `gpuslice`."""
    parser = subparsers.add_parser(
        "demo", help="show shares of simulated GPUs in a simulated cluster"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster running until Ctrl-C"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the demo; 1 when anything is not as asked."""
    # The simulation is an extra, and heavy: only this command pays for it.
    from rich.console import Console  # noqa: PLC0415

    with needing("extender,sim,webhook"):
        # Both run as processes of their own.
        import extender.program  # noqa: F401, PLC0415
        import webhook.program  # noqa: F401, PLC0415
        from cli.demo.older import OlderError  # noqa: PLC0415
        from cli.demo.older import play as play_older  # noqa: PLC0415
        from cli.demo.programs import ProgramError  # noqa: PLC0415
        from cli.demo.report import make_report  # noqa: PLC0415
        from cli.demo.scenes import SCENES  # noqa: PLC0415
        from cli.demo.view import show  # noqa: PLC0415
        from cli.demo.world import NotSettledError, running  # noqa: PLC0415
    from kube import logs  # noqa: PLC0415

    began = time.monotonic()

    def say(step: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:5.1f} s  {step}\n")

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    with _directory() as directory, (directory / "cluster.log").open("w") as log_file:
        logs.configure("info", json=True, stream=log_file)
        try:
            with running(directory, say) as world:
                for scene in SCENES:
                    if scene.legacy and not world.is_asking:
                        say("letting the API server ask the webhook about pods and claims")
                        world.ask_webhook()
                    say(f"applying examples/{scene.folder}: {scene.title}")
                    world.apply(scene)
                roots = {name: agent.node.root for name, agent in world.agents.items()}
                report = make_report(world.evidence(), detail_of=_DETAIL_OF, roots=roots)
                report = replace(report, older=play_older(directory, say))
                if args.keep:
                    show(report, Console())
                    _keep(world.cluster.kubeconfig)
                say("deleting all pods: nothing may be left of them")
                report = replace(report, leftovers=tuple(world.release()))
        except (ProgramError, NotSettledError, OlderError) as error:
            say(f"failed: {error}")
            return 1
    if args.json:
        print(json.dumps({"ok": report.ok, **asdict(report)}, indent=2))  # noqa: T201
    elif not args.keep:
        show(report, Console())
    say("everything is as asked" if report.ok else "something is not as asked")
    return 0 if report.ok else 1


def _exit(_number: int, _frame: object) -> None:
    sys.exit(1)


@contextmanager
def _directory() -> Iterator[Path]:
    """Make a short-named directory: socket paths have little room."""
    path = Path(tempfile.mkdtemp(prefix="gs-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _keep(kubeconfig: Path) -> None:
    # A pipe and no Event: a handler that runs while the same thread is about to wait for the Event
    # would wait for its lock for ever.
    reading, writing = os.pipe()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: os.write(writing, b"."))
    sys.stderr.write(f"left running until Ctrl-C; export KUBECONFIG={kubeconfig}\n")
    os.read(reading, 1)
    signal.signal(signal.SIGINT, before)
    for end in (reading, writing):
        os.close(end)
    sys.stderr.write(os.linesep)
