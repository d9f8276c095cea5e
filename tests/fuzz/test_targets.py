"""Every reader over some thousand spoiled inputs; `make fuzz` takes a million."""

from collections.abc import Callable

import pytest

from tests.fuzz.running import Target, run, sample_of
from tests.fuzz.targets import MAKERS, shares

INPUTS = shares(8_000)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker().name)
def test_spoiled_inputs_are_taken_as_they_are_or_refused_by_our_errors(
    maker: Callable[[], Target],
) -> None:
    """No other exception escapes, and no number comes out that the input does not say."""
    target = maker()
    try:
        report = run(target, inputs=INPUTS[maker])
    finally:
        target.close()
    assert not [f"{found.error}\n{found.trace}" for found in report.findings]
    assert report.inputs == INPUTS[maker]
    # Inputs of which all are refused, or none, would test nothing.
    assert report.accepted
    assert report.refused


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker().name)
def test_an_input_can_be_made_again(maker: Callable[[], Target]) -> None:
    """Seed and number are all that tells one from another."""
    samples = [[ascii(sample_of(maker(), 5, number)) for number in range(9)] for _ in range(2)]
    assert samples[0] == samples[1]
    assert samples[0] != [ascii(sample_of(maker(), 6, number)) for number in range(9)]


def test_names_are_unique() -> None:
    """They choose a target on the command line."""
    names = [maker().name for maker in MAKERS]
    assert len(set(names)) == len(names)
