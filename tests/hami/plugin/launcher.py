"""A plugin in a process of its own, which tests kill."""

import multiprocessing
import signal
import sys
import threading
from pathlib import Path

from tests.hami.plugin.faulty import client_of
from tests.hami.plugin.kubelet import DEADLINE_S
from tests.hami.plugin.placed import parts_of
from tests.hami.plugin.running import running

_CONTEXT = multiprocessing.get_context("forkserver")
# `pytest` too, because each child imports the main module of the process that asked for it.
_CONTEXT.set_forkserver_preload(["pytest", "tests.hami.plugin.launcher"])


class Plugin:
    """Serves from its construction until it is killed."""

    def __init__(self, kubelet_root: Path, url: str, token: str) -> None:
        arguments = (str(kubelet_root), url, token)
        self._process = _CONTEXT.Process(target=_run, args=arguments, daemon=True)
        self._process.start()

    def kill(self) -> None:
        """Send SIGKILL; may be called from any thread."""
        self._process.kill()

    def was_killed(self) -> bool:
        """Wait for the end, and tell whether it was that."""
        self._process.join(DEADLINE_S)
        return self._process.exitcode == -signal.SIGKILL


def _run(kubelet_root: str, url: str, token: str) -> None:
    sys.stdout = sys.stderr = open("/dev/null", "w", encoding="utf-8")  # noqa: PTH123, SIM115
    with running(Path(kubelet_root), parts_of(client_of(url, token))):
        threading.Event().wait()
