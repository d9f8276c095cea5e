"""What the kernel says of the agent's process, once a second, whichever process that is."""

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.scenes.driver import Driver

_EVERY_S: Final = 1.0
_WARM_S: Final = 60.0
_WINDOW_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at one process."""

    at_s: float
    pid: int
    rss_mb: float
    descriptors: int
    threads: int


def look(pid: int) -> Sample:
    """Return what a process takes now; FileNotFoundError when it is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return Sample(
        at_s=time.monotonic(),
        pid=pid,
        rss_mb=int(fields["VmRSS"].split()[0]) / 1024,
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=int(fields["Threads"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Memory soon after the beginning of a time, and at its end."""

    before_mb: float
    after_mb: float

    @property
    def mb(self) -> float:
        """Return what it grew by."""
        return self.after_mb - self.before_mb


def growth(samples: Sequence[Sample], began_s: float, ended_s: float) -> Growth:
    """Return how memory grew once everything was done once: after a minute, or after the half."""
    warm_s = began_s + min(_WARM_S, (ended_s - began_s) / 2)
    early = [each.rss_mb for each in samples if warm_s <= each.at_s <= warm_s + _WINDOW_S]
    late = [each.rss_mb for each in samples if ended_s - _WINDOW_S <= each.at_s <= ended_s]
    return Growth(before_mb=statistics.median(early), after_mb=statistics.median(late))


class Meter:
    """Looks at the agent of the node with a kubelet, in a thread, between start and stop."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._samples: list[Sample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def since(self, at_s: float) -> Sequence[Sample]:
        """Return the samples taken at or after *at_s* of `time.monotonic`."""
        return [each for each in list(self._samples) if each.at_s >= at_s]

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            try:
                self._samples.append(look(self._driver.first.process.pid))
            except (FileNotFoundError, ProcessLookupError, KeyError):
                # It ends just now, and what is left of it has no memory.
                continue
