"""How often to put back what somebody else keeps changing.

One deletion or edit is repaired at once. But two processes with different settings (during a
rolling update) or a controller that wants the slices gone would never stop undoing each other's
work, at the full speed of the API server and on every node of the cluster.
"""

import time
from collections import deque
from collections.abc import Callable

_WINDOW_S = 60.0
_FREE = 5
_PAUSE_MAX_S = 30.0


class Restraint:
    """Allows a few repairs at once, then fewer and fewer until a quiet minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._done: deque[float] = deque()

    def note(self) -> None:
        """Count one repair."""
        self._done.append(self._clock())

    def pause_s(self) -> float:
        """Return how long to wait before the next repair, 0 for not at all."""
        now = self._clock()
        while self._done and now - self._done[0] > _WINDOW_S:
            self._done.popleft()
        excess = len(self._done) - _FREE
        if excess < 0:
            return 0.0
        due = self._done[-1] + min(_PAUSE_MAX_S, 2.0**excess)
        return max(0.0, due - now)
