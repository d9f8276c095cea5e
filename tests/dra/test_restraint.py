"""Repairs become rarer when they do not last."""

from dra.restraint import Restraint


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Return the present second."""
        return self.now_s


def test_a_few_repairs_are_free() -> None:
    """Five repairs in a row happen at once, the next has to wait."""
    restraint = Restraint(Clock())
    for _ in range(5):
        assert restraint.pause_s() == 0
        restraint.note()
    assert restraint.pause_s() == 1


def test_pauses_grow_and_end_with_quiet() -> None:
    """Each further repair waits longer, up to half a minute; a quiet minute forgives all."""
    clock = Clock()
    restraint = Restraint(clock)
    pauses = []
    for _ in range(12):
        pause_s = restraint.pause_s()
        pauses.append(pause_s)
        clock.now_s += pause_s
        restraint.note()
    assert pauses[4:9] == [0, 1, 2, 4, 8]
    assert max(pauses) <= 30
    clock.now_s += 61
    assert restraint.pause_s() == 0
