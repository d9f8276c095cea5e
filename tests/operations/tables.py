"""Writes the tables of metrics in docs/operations.md: `python -m tests.operations.tables`."""

import re
from pathlib import Path
from typing import Final

from tests.cluster.cluster import REPOSITORY
from tests.operations.exported import PROGRAMS, Exported

DOCUMENT: Final = REPOSITORY / "docs" / "operations.md"
_HEAD: Final = "| metric | labels | |\n|---|---|---|\n"
_TABLE: Final = re.compile(r"(<!-- metrics: ([^>]+) -->\n)((?:\|.*\n)*)")


def table(program: str) -> str:
    """Return the table of one program, sorted by name."""
    metrics = sorted(PROGRAMS[program](), key=lambda each: each.name)
    return _HEAD + "".join(_row(each) for each in metrics)


def _row(metric: Exported) -> str:
    name = metric.name + ("_total" if metric.kind == "counter" else "")
    kind = "histogram: " if metric.kind == "histogram" else ""
    labels = ", ".join(f"`{label}`" for label in sorted(metric.labels))
    return f"| `{name}` | {labels} | {kind}{metric.text} |\n"


def tables_in(text: str) -> dict[str, str]:
    """Return the tables that a document has, by program."""
    return {program: rows for _, program, rows in _TABLE.findall(text)}


def written(text: str) -> str:
    """Return the document with the tables as they should be."""
    return _TABLE.sub(lambda match: match.group(1) + table(match.group(2)), text)


def main(path: Path = DOCUMENT) -> None:
    """Write them."""
    path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
