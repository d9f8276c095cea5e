"""The plugin's own threads: each does one thing again and again until all are stopped."""

import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


class Loops:
    """Starts threads that end together."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def every(
        self, interval_s: float, work: Callable[[], None], *, wake: threading.Event | None = None
    ) -> None:
        """Call *work* now, then every *interval_s*, and earlier whenever *wake* is set."""
        pause = wake or threading.Event()
        self.run(f"{work.__qualname__}", lambda: self._repeat(interval_s, work, pause))

    def run(self, name: str, body: Callable[[], None]) -> None:
        """Run *body*, which ends by itself once `stopping` is set, in a thread."""
        thread = threading.Thread(target=body, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, timeout_s: float) -> None:
        """Ask all threads to end and wait for each for at most *timeout_s*."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(timeout_s)

    def _repeat(self, interval_s: float, work: Callable[[], None], wake: threading.Event) -> None:
        while not self.stopping.is_set():
            wake.clear()
            try:
                work()
            except Exception:  # the top of the thread's loop
                log.exception("loop failed", loop=work.__qualname__)
            self._wait(interval_s, wake)

    def _wait(self, interval_s: float, wake: threading.Event) -> None:
        """Wait in short steps, because there is no waiting for either of two events."""
        waited_s = 0.0
        while waited_s < interval_s and not wake.is_set():
            step_s = min(0.2, interval_s - waited_s)
            if self.stopping.wait(step_s):
                return
            waited_s += step_s
