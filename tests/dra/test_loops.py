"""Threads that do one thing again and again."""

import threading
from queue import Empty, SimpleQueue

import pytest

from dra.loops import Loops


def test_work_is_done_at_once_and_when_woken() -> None:
    """An interval of a day is not waited for."""
    loops, wake, done = Loops(), threading.Event(), SimpleQueue[int]()
    loops.every(86400.0, lambda: done.put(1), wake=wake)
    done.get(timeout=20)
    wake.set()
    done.get(timeout=20)
    loops.stop(20)


def test_a_burst_is_answered_once() -> None:
    """What wakes while it settles adds nothing."""
    loops, wake, done = Loops(), threading.Event(), SimpleQueue[int]()
    loops.every(86400.0, lambda: done.put(1), wake=wake, settle_s=1.0)
    done.get(timeout=20)
    for _ in range(20):
        wake.set()
        loops.stopping.wait(0.005)
    done.get(timeout=20)
    with pytest.raises(Empty):
        done.get(timeout=0.2)
    loops.stop(20)


def test_work_is_repeated() -> None:
    """Without being woken."""
    loops, done = Loops(), SimpleQueue[int]()
    loops.every(0.001, lambda: done.put(1))
    for _ in range(3):
        done.get(timeout=20)
    loops.stop(20)


def test_failing_work_is_repeated_too() -> None:
    """One failure does not end the loop."""
    loops, done = Loops(), SimpleQueue[int]()

    def fail() -> None:
        done.put(1)
        raise ValueError("failed")

    loops.every(0.001, fail)
    for _ in range(3):
        done.get(timeout=20)
    loops.stop(20)


def assert_set(event: threading.Event) -> None:
    """Wait until *event* is set."""
    assert event.wait(60)


def test_all_threads_end_at_a_stop() -> None:
    """Those that wait for a day, and those that wait for the stop themselves."""
    loops = Loops()
    loops.every(86400.0, lambda: None, wake=threading.Event(), settle_s=86400.0)
    loops.every(86400.0, lambda: None)
    loops.run("own", lambda: assert_set(loops.stopping))
    loops.stop(20)
    assert not any(thread.is_alive() for thread in loops._threads)
