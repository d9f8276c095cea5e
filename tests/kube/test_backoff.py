"""Waits between tries."""

from hypothesis import given
from hypothesis import strategies as st

from kube.backoff import Backoff


@given(st.integers(0, 200))
def test_waits_double_up_to_the_cap_and_are_cut_by_chance(failures: int) -> None:
    """Each lies between a half and the whole of its step."""
    backoff = Backoff(first_s=0.5, max_s=8)
    for _ in range(failures):
        backoff.next_s()
    step_s = min(8.0, 0.5 * 2**failures)
    assert step_s / 2 <= backoff.next_s() <= step_s
    assert backoff.failures == failures + 1


def test_a_success_begins_anew() -> None:
    """After a reset the first wait is short again."""
    backoff = Backoff(first_s=1, max_s=64)
    for _ in range(6):
        backoff.next_s()
    backoff.reset()
    assert backoff.failures == 0
    assert backoff.next_s() <= 1


def test_many_do_not_come_back_in_step() -> None:
    """Two waits of the same step differ."""
    assert len({Backoff(first_s=1, max_s=1).next_s() for _ in range(20)}) > 1
