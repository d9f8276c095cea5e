"""Takes secrets out of what is shown: what others have written, errors too, may quote one."""

import re
from dataclasses import replace
from typing import Final

from cli.doctor.model import Finding

_HIDDEN: Final = "(hidden)"
_TEXT_MAX: Final = 500
_SECRETS: Final = (
    re.compile(r"(?is)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)"),
    re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"),
    re.compile(r"(?i)(?<=bearer )\S+"),
    re.compile(r"(?<=://)[^/@\s]+:[^/@\s]+(?=@)"),
)


def veiled(finding: Finding) -> Finding:
    """Return *finding* without what looks like a key, a token or a password in a URL."""
    verdict = finding.verdict
    shown = replace(
        verdict,
        seen=_shown(verdict.seen),
        remedy=_shown(verdict.remedy),
        details=tuple(_shown(each) for each in verdict.details),
    )
    return replace(finding, verdict=shown)


def _shown(text: str) -> str:
    """Return *text* veiled, on one line and of a length that leaves room for others."""
    line = " ".join(veil(text).split())
    return line if len(line) <= _TEXT_MAX else f"{line[: _TEXT_MAX - 3]}..."


def veil(text: str) -> str:
    """Return *text* without what looks like a secret."""
    for pattern in _SECRETS:
        text = pattern.sub(_HIDDEN, text)
    return text
