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
        self._wakes: list[threading.Event] = []

    def every(
        self, interval_s: float, work: Callable[[], None], *, wake: threading.Event | None = None
    ) -> None:
        """Call *work* now, then every *interval_s*, and earlier whenever *wake* is set."""
        pause = wake or threading.Event()
        self._wakes.append(pause)
        self.run(f"{work.__qualname__}", lambda: self._repeat(interval_s, work, pause))

    def run(self, name: str, body: Callable[[], None]) -> None:
        """Run *body*, which ends by itself once `stopping` is set, in a thread."""
        thread = threading.Thread(target=body, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, timeout_s: float) -> None:
        """Ask all threads to end and wait for each for at most *timeout_s*."""
        self.stopping.set()
        for wake in self._wakes:
            wake.set()
        for thread in self._threads:
            thread.join(timeout_s)

    def _repeat(self, interval_s: float, work: Callable[[], None], wake: threading.Event) -> None:
        while True:
            # In this order: `stop` sets `stopping` first, then the wake that ends the wait.
            wake.clear()
            if self.stopping.is_set():
                return
            try:
                work()
            except Exception:  # the top of the thread's loop
                log.exception("loop failed", loop=work.__qualname__)
            wake.wait(interval_s)
