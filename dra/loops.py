"""The plugin's own threads: each does one thing again and again until all are stopped."""

import threading
from collections.abc import Callable
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)


class Wake(Protocol):
    """Ends the wait of a loop."""

    def set(self) -> None:
        """End it now, or the next one."""


class Loops:
    """Starts threads that end together."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._wakes: list[Wake] = []

    def every(
        self,
        interval_s: float,
        work: Callable[[], None],
        *,
        wake: threading.Event | None = None,
        settle_s: float = 0.0,
    ) -> None:
        """Call *work* now, then every *interval_s*, and *settle_s* after *wake* was set."""
        pause = wake or threading.Event()

        def wait() -> None:
            if pause.wait(interval_s):
                # What comes in a burst is answered once.
                self.stopping.wait(settle_s)

        self.run(work.__qualname__, lambda: self._repeat(work, pause, wait), wake=pause)

    def run(self, name: str, body: Callable[[], None], *, wake: Wake | None = None) -> None:
        """Run *body* in a thread; it ends by itself once `stopping`, and then *wake*, are set."""
        if wake is not None:
            self._wakes.append(wake)
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

    def _repeat(
        self, work: Callable[[], None], wake: threading.Event, wait: Callable[[], None]
    ) -> None:
        while True:
            # In this order: `stop` sets `stopping` first, then the wake that ends the wait.
            wake.clear()
            if self.stopping.is_set():
                return
            try:
                work()
            except Exception:  # the top of the thread's loop
                log.exception("loop failed", loop=work.__qualname__)
            wait()
