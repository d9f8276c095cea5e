"""A program of ours beside the simulated cluster, started as on a real one.

Its log goes to a file, because a person watching the demo wants to see what happened and not how.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_STOP_S = 5.0


class ProgramError(Exception):
    """A program ended or did not become ready; the text ends with what it logged last."""


@dataclass(slots=True)
class Program:
    """A running program; *what* is how people call it."""

    what: str
    process: subprocess.Popen[bytes]
    log_path: Path
    port: int
    """Of its probes and metrics."""

    @classmethod
    def start(
        cls,
        what: str,
        words: Sequence[str],
        flags: Mapping[str, object],
        log_path: Path,
        *,
        probes: str = "probe",
    ) -> Self:
        """Start `python -m` *words* with *flags* and a free port for probes.

        *probes* is what the flags of that port begin with.
        """
        port = free_port()
        flags = {**flags, f"--{probes}-address": "127.0.0.1", f"--{probes}-port": port}
        told = [str(word) for pair in flags.items() for word in pair]
        with log_path.open("ab") as log_file:
            process = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, "-m", *words, *told],
                stdout=log_file,
                stderr=log_file,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C is for the demo, which needs the programs to clean up.
                start_new_session=True,
            )
        return cls(what=what, process=process, log_path=log_path, port=port)

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the program says that it can do its work."""
        deadline = time.monotonic() + timeout_s
        answer = "no answer yet"
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            ready, answer = self._ask("readyz")
            if ready:
                return
            time.sleep(0.05)
        tail = "\n".join(self.log_path.read_text().splitlines()[-5:])
        message = f"{self.what} is not ready: {answer}\n{tail}"
        raise ProgramError(message)

    def metrics(self) -> str:
        """Return the program's metrics in Prometheus' text form."""
        return self._ask("metrics")[1]

    def stop(self) -> None:
        """End the program as a cluster would, and wait for it."""
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ask(self, path: str) -> tuple[bool, str]:
        url = f"http://127.0.0.1:{self.port}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:  # our own URL
                return True, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return False, error.read().decode().strip()
        except OSError as error:
            return False, str(error)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
