"""The agent's process in a scene: the real program, which a scene can kill between two steps.

`python -m tests.cluster.scenes.launcher --log FILE --deadly FILE --clock FILE -- ARGUMENTS` runs
the simulated agent with ARGUMENTS. It dies at the fault point that the file *deadly* names, as the
crash tests' agent does, and it sees the wall clock shifted by as many seconds as *clock* says.

No namespace of Linux covers the wall clock and the machine's own belongs to everybody, so it is
`time.time()` that is shifted, for callers in our own packages. Libraries keep the machine's: what
gRPC computes with it goes to a core that asks the kernel. So do the times in events and in logs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.agent.launcher import launch

# After the agent, which must be imported before all that logs.
import time  # isort: skip

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


def main(arguments: Sequence[str]) -> None:
    """Run the agent until it ends."""
    parser = argparse.ArgumentParser(prog="launcher")
    for name in ("log", "deadly", "clock"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("agent", nargs=argparse.REMAINDER)
    chosen = parser.parse_args(arguments)
    _shift(Path(chosen.clock))
    launch(chosen.agent[1:], chosen.log, chosen.deadly)


if __name__ == "__main__":
    main(sys.argv[1:])
