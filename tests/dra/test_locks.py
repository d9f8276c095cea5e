"""One lock per claim."""

import threading

import pytest

from dra.locks import ClaimLocks
from gpu.refusal import RefusedError


def test_calls_for_one_claim_follow_each_other() -> None:
    """The second waits, and gets an error that kubelet retries when it waits too long."""
    locks = ClaimLocks(wait_s=0.02)
    with locks.hold("a"):
        failures: list[str] = []

        def second() -> None:
            try:
                with locks.hold("a"):
                    failures.append("was let in")
            except RefusedError as error:
                failures.append(error.refusal.code)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert failures == ["ClaimBusy"]
    with locks.hold("a"):
        pass


def test_calls_for_other_claims_do_not_wait() -> None:
    """Each claim has a lock of its own."""
    locks = ClaimLocks(wait_s=0.02)
    with locks.hold("a"), locks.hold("b"):
        pass


def test_a_lock_is_given_back_after_an_error() -> None:
    """A failed call does not block the next."""
    locks = ClaimLocks(wait_s=0.02)
    with pytest.raises(ValueError, match="failed"), locks.hold("a"):
        raise ValueError("failed")
    with locks.hold("a"):
        pass


def test_no_lock_outlives_its_users() -> None:
    """A node sees new claims for years."""
    locks = ClaimLocks(wait_s=20)
    order: list[int] = []

    def work(number: int) -> None:
        with locks.hold(f"claim-{number % 3}"):
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(order) == list(range(30))
    assert locks._locks == {}
