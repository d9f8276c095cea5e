"""What findings add up to."""

import pytest

from cli.doctor.model import (
    Finding,
    Half,
    Verdict,
    exit_status,
    failed,
    listed,
    ok,
    skipped,
    unknown,
    warning,
)


def findings(*verdicts: Verdict) -> list[Finding]:
    """Return them as of one half."""
    return [Finding(id="x", half=Half.CLUSTER, verdict=each) for each in verdicts]


@pytest.mark.parametrize(
    ("verdicts", "status", "strict"),
    [
        ((ok("a"), skipped("b"), unknown("c")), 0, 0),
        ((ok("a"), warning("b", "c")), 0, 1),
        ((warning("b", "c"), failed("a", "b")), 2, 2),
        ((unknown("a"), skipped("b")), 3, 3),
        ((), 3, 3),
        ((unknown("a"), failed("a", "b")), 2, 2),
    ],
)
def test_exit_status(verdicts: tuple[Verdict, ...], status: int, strict: int) -> None:
    """Failures count always, warnings if asked, and what was not asked is never well."""
    assert exit_status(findings(*verdicts), strict=False) == status
    assert exit_status(findings(*verdicts), strict=True) == strict


def test_many_names_are_cut() -> None:
    """Three names are shown, each once, and how many there are besides."""
    assert listed(["a", "b", "a"]) == "a, b"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
