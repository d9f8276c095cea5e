"""Findings as JSON for programs; docs/doctor.md documents the fields."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from cli.doctor.model import Finding, Status

FORMAT: Final = 1
"""Grows when a field changes its meaning or goes away."""


def document_of(findings: Sequence[Finding], *, status: int) -> dict[str, Any]:
    """Return *findings* and the exit *status* as plain JSON values."""
    count = Counter(finding.verdict.status for finding in findings)
    return {
        "format": FORMAT,
        "exit_status": status,
        "summary": {each.value: count[each] for each in Status},
        "checks": [_check(finding) for finding in findings],
    }


def _check(finding: Finding) -> dict[str, Any]:
    verdict = finding.verdict
    return {
        "id": finding.id,
        "half": finding.half.value,
        "about": finding.about,
        "status": verdict.status.value,
        "seen": verdict.seen,
        "remedy": verdict.remedy,
        "details": list(verdict.details),
    }
