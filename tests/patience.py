"""Waiting for what other threads and processes do, for as long as a busy machine needs."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

DEADLINE_S = 30.0
_LOOK_EVERY_S = 0.01


def eventually(condition: Callable[[], Value], within_s: float = DEADLINE_S) -> Value:
    """Return the first true value of *condition*; fail when there is none in time."""
    deadline_s = time.monotonic() + within_s
    while not (value := condition()):
        what = condition.__doc__ or condition
        assert time.monotonic() < deadline_s, f"it never became true: {what}"
        time.sleep(_LOOK_EVERY_S)
    return value
