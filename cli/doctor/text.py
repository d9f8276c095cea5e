"""Findings in a table of at most 100 columns.

Checks of one half that follow each other and say the very same thing, because nobody could be
asked, share a row. Lines are pairs of a style and a text, so that a terminal and a file get the
same words.
"""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from cli.doctor.model import Finding, Status, counted

WIDTH: Final = 100
_DETAILS_MAX: Final = 5
_ID_WIDTH: Final = 21
_STATUS_WIDTH: Final = 9
_INDENT: Final = _ID_WIDTH + _STATUS_WIDTH
_SAME_MIN: Final = 3
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_STYLES: Final = {
    Status.OK: "green",
    Status.WARNING: "yellow",
    Status.FAILED: "bold red",
    Status.UNKNOWN: "magenta",
    Status.SKIPPED: "dim",
}


class Line(NamedTuple):
    """One line of output; *style* is a word for a terminal, empty for plain text."""

    text: str
    style: str = ""


def lines_of(findings: Sequence[Finding]) -> list[Line]:
    """Write *findings* for a person, with a heading for each half and a last line that counts."""
    lines: list[Line] = []
    for half, each in groupby(findings, lambda finding: finding.half):
        lines += [Line(half.value, "bold"), *_rows(list(each)), Line("")]
    return [*lines, _summary(findings)]


def _rows(findings: Sequence[Finding]) -> Iterator[Line]:
    for (_, about), group in groupby(findings, lambda it: (it.verdict, it.about)):
        same = list(group)
        if len(same) < _SAME_MIN:
            for finding in same:
                yield from _row(finding, finding.about or finding.id)
        else:
            yield from _row(same[0], f"{len(same)} checks{f' of {about}' if about else ''}")
            yield from _wrapped(", ".join(finding.id for finding in same), "dim")


def _row(finding: Finding, name: str) -> Iterator[Line]:
    verdict = finding.verdict
    head = f"{name:<{_ID_WIDTH - 1}} {verdict.status.value:<{_STATUS_WIDTH}}"
    if len(head) > _INDENT:
        yield Line(name)
        head = f"{'':<{_ID_WIDTH}}{verdict.status.value:<{_STATUS_WIDTH}}"
    first, *others = _folded(verdict.seen) or [""]
    yield Line(f"{head}{first}".rstrip(), _STYLES[verdict.status])
    for text in others:
        yield Line(f"{'':<{_INDENT}}{text}")
    for detail in verdict.details[:_DETAILS_MAX]:
        yield from _wrapped(f"- {detail}")
    if len(verdict.details) > _DETAILS_MAX:
        yield from _wrapped(f"- and {len(verdict.details) - _DETAILS_MAX} more")
    if verdict.remedy:
        yield from _wrapped(f"=> {verdict.remedy}", "bold")


def _wrapped(text: str, style: str = "") -> Iterator[Line]:
    for each in _folded(text):
        yield Line(f"{'':<{_INDENT}}{each}", style)


def _folded(text: str) -> list[str]:
    """Break *text*; what others have written must not move a terminal's cursor."""
    return textwrap.wrap(_CONTROL.sub(" ", text), WIDTH - _INDENT, break_on_hyphens=False)


def _summary(findings: Iterable[Finding]) -> Line:
    count = Counter(finding.verdict.status for finding in findings)
    said = ", ".join(f"{count[each]} {each.value}" for each in Status if count[each])
    worst = next(
        (each for each in (Status.FAILED, Status.WARNING, Status.UNKNOWN) if count[each]), Status.OK
    )
    return Line(f"{counted(count.total(), 'check')}: {said}", _STYLES[worst])
