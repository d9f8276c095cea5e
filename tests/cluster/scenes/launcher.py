"""The agent's process in a scene: the real program, which a scene can kill between two steps.

`python -m tests.cluster.scenes.launcher --folder FOLDER -- ARGUMENTS` runs the simulated agent
with ARGUMENTS. It looks for three files in FOLDER each time: `deadly` names the fault point at
which it dies, `met` takes the points that it passes, if it is there, and `clock` has the seconds
by which its wall clock is shifted.

No namespace of Linux covers the wall clock and the machine's own belongs to everybody, so it is
`time.time()` that is shifted, for callers in our own packages. Libraries keep the machine's: what
gRPC computes with it goes to a core that asks the kernel. So do the times in events and in logs.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

# Before all else that logs, as the agent itself does it.
from cli import simulated_agent  # isort: skip

import time  # isort: skip

from cdi import faults
from cdi.faults import FaultPoint

_OURS: Final = ("cdi", "dra", "gpu", "kube")


def _shift(clock: Path) -> None:
    """Let `time.time()` say what *clock* makes of it, from now on and at each call."""
    real = time.time

    def shifted() -> float:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        if caller.partition(".")[0] not in _OURS:
            return real()
        try:
            return real() + float(clock.read_text())
        except (FileNotFoundError, ValueError):
            return real()

    time.time = shifted


def _reached(folder: Path, point: FaultPoint) -> None:
    met, deadly = folder / "met", folder / "deadly"
    if met.exists():
        with met.open("a") as lines:
            lines.write(f"{point}\n")
    try:
        wanted = deadly.read_text()
    except FileNotFoundError:
        return
    if wanted == point:
        os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: Sequence[str]) -> int:
    """Run the agent until it ends."""
    parser = argparse.ArgumentParser(prog="launcher")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("agent", nargs=argparse.REMAINDER)
    chosen = parser.parse_args(arguments)
    _shift(chosen.folder / "clock")
    faults.listen(partial(_reached, chosen.folder))
    return simulated_agent.main(chosen.agent[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
