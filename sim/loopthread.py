"""An asyncio loop in a thread of its own, for callers that are not asynchronous.

`anyio.from_thread` has as much and would be one dependency more; `asyncio.Runner` does not leave
the caller's thread.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")

_STOP_TIMEOUT_S = 30.0


class LoopThread:
    """A loop that runs from `start` to `stop`; all methods are for other threads."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def start(self) -> None:
        """Begin to run."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which must have nothing left to do; the loop cannot run again."""
        self.run(self._loop.shutdown_default_executor(), timeout_s=_STOP_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_TIMEOUT_S)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, Value], *, timeout_s: float | None = None) -> Value:
        """Run *work* in the loop and return its value; `TimeoutError` after *timeout_s*."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def call(self, function: Callable[..., Value], *args: Any, **options: Any) -> Value:
        """Call *function* in the loop and return its value."""

        async def work() -> Value:
            return function(*args, **options)

        return self.run(work())
