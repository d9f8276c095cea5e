"""What the kernel says of a process, and how to start one whose lines are read."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
ROOT: Final = Path(__file__).parents[2]


class Process:
    """A Python process of ours; its lines are kept with the time at which they were read."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.started_s = time.monotonic()
        self._child = subprocess.Popen(  # noqa: S603 - our own modules
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[tuple[float, str]] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Return its number."""
        return self._child.pid

    def wait_line(
        self, wanted: Callable[[str], bool], timeout_s: float = 30.0
    ) -> tuple[float, str]:
        """Return the first line that is *wanted* and when it came."""

        def found() -> tuple[float, str] | None:
            return next((each for each in self.lines if wanted(each[1])), None)

        with self._more:
            if not self._more.wait_for(
                lambda: found() or self._child.poll() is not None, timeout_s
            ):
                raise TimeoutError(self.text())
            line = found()
        if line is None:
            raise RuntimeError(self.text())
        return line

    def has_ended(self) -> bool:
        """Tell whether it runs no more."""
        return self._child.poll() is not None

    def text(self) -> str:
        """Return all that it said."""
        return "\n".join(line for _, line in self.lines)

    def cpu_s(self) -> float:
        """Return the seconds that all its threads have computed."""
        after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_S

    def rss_mb(self) -> float:
        """Return its resident memory, shared pages of libraries included."""
        return self._status("VmRSS") / 1024

    def shared_mb(self) -> float:
        """Return the part of it that is pages of files: programs and libraries."""
        return self._status("RssFile") / 1024

    def threads(self) -> int:
        """Return how many threads it has."""
        return self._status("Threads")

    def stop(self) -> None:
        """End it as a service manager does."""
        self._child.terminate()
        try:
            self._child.wait(15)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join(5)

    def _status(self, field: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith(f"{field}:"))
        return int(line.split()[1])

    def _read(self) -> None:
        stream = self._child.stdout
        assert stream is not None
        for line in stream:
            with self._more:
                self.lines.append((time.monotonic(), line.rstrip("\n")))
                self._more.notify_all()
        with self._more:
            self._more.notify_all()
        stream.close()


@contextmanager
def running(process: Process) -> Iterator[Process]:
    """Stop *process* at the end of the block."""
    try:
        yield process
    finally:
        process.stop()
