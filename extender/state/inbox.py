"""Hands what threads of watches tell over to the loop, in their order and in small portions.

A first list tells of tens of thousands of objects at once. Taken in one go they would keep every
other request waiting for seconds, so the loop takes what fits into a moment, and goes on after
whatever else is waiting. Of a few changes, as in quiet times, each is taken at once.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_PORTION_S: Final = 0.001

Step = Callable[[], None]


class Inbox:
    """A queue of steps that run in *loop*; a step that raises is logged and skipped."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: deque[Step] = deque()
        self._is_awake = False

    def __len__(self) -> int:
        return len(self._steps)

    def put(self, step: Step) -> None:
        """Have *step* run soon; may be called in any thread."""
        self._steps.append(step)
        # Read after the append and cleared before the last look, so that no step is left lying.
        if not self._is_awake:
            self._is_awake = True
            try:
                self._loop.call_soon_threadsafe(self._run)
            except RuntimeError:
                log.debug("step dropped, the loop has ended")

    def _run(self) -> None:
        end_s = time.perf_counter() + _PORTION_S
        self._is_awake = False
        while self._steps:
            if time.perf_counter() >= end_s:
                self._is_awake = True
                self._loop.call_soon(self._run)
                return
            self._take(self._steps.popleft())

    def _take(self, step: Step) -> None:
        try:
            step()
        except Exception:  # the top of the loop: one bad object never stops the others
            log.exception("change not taken")
