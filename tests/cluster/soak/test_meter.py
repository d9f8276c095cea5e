"""What is made of the samples of an agent's process."""

import os

import pytest

from tests.cluster.soak.meter import Sample, growth, look


def _sample(at_s: float, rss_mb: float) -> Sample:
    return Sample(at_s=at_s, pid=1, rss_mb=rss_mb, descriptors=10, threads=5)


def test_growth_begins_when_the_process_is_warm() -> None:
    """What a process takes in its first minute is no growth, what it takes on later is."""
    warming = [_sample(1000 + second, 40 + second / 3) for second in range(60)]
    steady = [_sample(1060 + second, 60 + second / 100) for second in range(241)]
    found = growth([*warming, *steady], 1000, 1300)
    assert found.before_mb == pytest.approx(60.05)
    assert found.after_mb == pytest.approx(62.35)
    assert found.mb == pytest.approx(2.3)


def test_a_short_time_is_warm_after_its_half() -> None:
    """Of half a minute the second half counts."""
    samples = [_sample(float(second), float(second)) for second in range(31)]
    assert growth(samples, 0, 30).before_mb == pytest.approx(20)


def test_a_process_is_looked_at() -> None:
    """A file that is opened is one descriptor more."""
    before = look(os.getpid())
    with open(os.devnull, "rb"):  # noqa: PTH123 - nothing but a descriptor
        after = look(os.getpid())
    assert after.descriptors == before.descriptors + 1
    assert before.rss_mb > 1
    assert before.threads >= 1
