"""The table in docs/scenes.md: which scenes a release plays, and why not the others."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.cluster.cluster import REPOSITORY

GATE: Final = "DRAConsumableCapacity"
DOCUMENT: Final = REPOSITORY / "docs" / "scenes.md"
_WITH_GATE: Final = " + gate"
_REASON: Final = re.compile(r"^- \*\*(\w)\*\*: (.*(?:\n  .*)*)", re.MULTILINE)


class TableError(Exception):
    """The document does not say for each scene and column whether it runs, or why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One line of the table."""

    name: str
    smoke: bool
    left_out: Mapping[str, str]
    """Reasons by column; it runs in all other columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The whole table."""

    columns: tuple[str, ...]
    scenes: Mapping[str, Scene]

    def columns_of(self, minor: str) -> list[str]:
        """Return the columns of a Kubernetes minor: with its default gates first."""
        return [each for each in self.columns if each.removesuffix(_WITH_GATE) == minor]

    def playing(self, column: str, *, smoke: bool = False) -> list[str]:
        """Return the names of the scenes of *column*, of the smoke set alone if asked."""
        if column not in self.columns:
            return []
        return [
            each.name
            for each in self.scenes.values()
            if column not in each.left_out and (each.smoke or not smoke)
        ]


def column_of(minor: str, gates: Mapping[str, bool]) -> str:
    """Return the column of a cluster with *gates* switched."""
    return minor + _WITH_GATE if gates.get(GATE) else minor


def gates_of(column: str) -> dict[str, bool]:
    """Return the gates to switch for *column*."""
    return {GATE: True} if column.endswith(_WITH_GATE) else {}


def read_table(text: str | None = None) -> Table:
    """Return the table of the document, or of *text*; TableError when a cell says nothing."""
    document = DOCUMENT.read_text() if text is None else text
    reasons = {letter: " ".join(said.split()) for letter, said in _REASON.findall(document)}
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in document.splitlines()
        if line.startswith("| ")
    ]
    _, _, *columns = rows[0]
    scenes = {}
    for name, smoke, *cells in rows[1:]:
        left_out = {}
        for column, cell in zip(columns, cells, strict=True):
            if cell != "yes":
                if cell not in reasons:
                    message = f"{name}, {column}: {cell!r} is neither yes nor a reason"
                    raise TableError(message)
                left_out[column] = reasons[cell]
        scenes[name] = Scene(name=name, smoke=smoke == "yes", left_out=left_out)
    return Table(columns=tuple(columns), scenes=scenes)
