"""Semantic versions 2.0.0 as Kubernetes compares them in CEL: build metadata plays no part."""

import re
from dataclasses import dataclass

_NUMBER = r"(0|[1-9][0-9]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_LOOSE = re.compile(r"v?0*([0-9]+)(?:\.0*([0-9]+))?(?:\.0*([0-9]+))?([-+].*)?")


@dataclass(frozen=True, slots=True)
class Semver:
    """A version without its build metadata."""

    major: int
    minor: int
    patch: int
    before: tuple[str, ...] = ()
    """Identifiers of a pre-release; empty for a release."""

    def __str__(self) -> str:
        tail = f"-{'.'.join(self.before)}" if self.before else ""
        return f"{self.major}.{self.minor}.{self.patch}{tail}"

    def order(self) -> tuple[object, ...]:
        """Return a key that sorts versions; a pre-release stands before its release."""
        before = tuple(
            (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in self.before
        )
        return (self.major, self.minor, self.patch, not self.before, before)


def parse_semver(text: str, *, loose: bool = False) -> Semver:
    """Parse *text*; *loose* forgives a `v` in front, leading zeros and missing parts."""
    match = _VERSION.fullmatch(_tightened(text) if loose else text)
    if match is None:
        msg = f"`{text}` is no semantic version"
        raise ValueError(msg)
    before = tuple(match[4].split(".")) if match[4] else ()
    if any(len(part) > 1 and part.isdecimal() and part[0] == "0" for part in before):
        msg = f"`{text}` has a pre-release number with a leading zero"
        raise ValueError(msg)
    return Semver(int(match[1]), int(match[2]), int(match[3]), before)


def _tightened(text: str) -> str:
    match = _LOOSE.fullmatch(text)
    if match is None:
        return text
    return f"{match[1]}.{match[2] or 0}.{match[3] or 0}{match[4] or ''}"
