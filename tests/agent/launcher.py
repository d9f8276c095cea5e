"""The agent's process as tests start it: the real program, which can be told to die somewhere.

It runs in a child of a process that has imported everything already, because the tests start
dozens of agents and importing takes most of a start.
"""

import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cdi import faults
from cdi.faults import FaultPoint
from cli import simulated_agent
from cli.nodeagent import cardagent, monitoring  # noqa: F401 - so that they are imported already


def launch(arguments: Sequence[str], log_path: str, deadly: str) -> None:
    """Run the agent with *arguments*; die at the point that the file *deadly* names."""
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    faults.listen(partial(_die_at, Path(deadly)))
    sys.exit(simulated_agent.main(arguments))


def _die_at(deadly: Path, point: FaultPoint) -> None:
    try:
        wanted = deadly.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    if wanted == point:
        os.kill(os.getpid(), signal.SIGKILL)
