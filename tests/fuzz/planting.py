"""Runs a target over a reader that is broken on purpose, until it finds what it should."""

import pytest

from tests.fuzz.running import Limits, Target, run

_INPUTS = 1200


def expect_found(target: Target, said: str) -> None:
    """Fail unless a finding of *target* has *said* in it."""
    found: list[str] = []
    try:
        for first in range(0, _INPUTS, 20):
            report = run(target, inputs=20, first=first, limits=Limits(shrink=False))
            found += [finding.error for finding in report.findings]
            if any(said in error for error in found):
                return
    finally:
        target.close()
    pytest.fail(f"{said} is not among {found}")
