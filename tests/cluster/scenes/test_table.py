"""Tests of the table of scenes, without a cluster."""

import re
from pathlib import Path

import pytest

from tests.cluster.go_modules import minors
from tests.cluster.scenes.__main__ import commands
from tests.cluster.scenes.table import TableError, column_of, gates_of, read_table

_MARK = re.compile(r'pytest\.mark\.scene\(\s*"([^"]+)"')
_DOCUMENT = """\
| scene | smoke | 1.34 | 1.34 + gate |
|---|---|---|---|
| one | yes | A | yes |
| two | | yes | yes |

- **A**: it takes
  two lines.
"""


def test_table_has_exactly_the_scenes_that_there_are() -> None:
    """Each scene of the code has a line in the document, and each line has a scene."""
    texts = [each.read_text() for each in Path(__file__).parent.glob("test_*.py")]
    written = [name for text in texts for name in _MARK.findall(text)]
    assert sorted(written) == sorted(read_table().scenes)


def test_every_release_that_can_has_columns() -> None:
    """All minors from 1.34 on have a column; those that need the gate for shares have two."""
    table = read_table()
    assert {each for each in minors() if table.columns_of(each)} == set(minors()) - {"1.33"}
    two = {each for each in minors() if len(table.columns_of(each)) == 2}
    assert two == {"1.34", "1.35"}


def test_cells_are_yes_or_a_reason() -> None:
    """A scene is left out by a letter that the document explains."""
    table = read_table(_DOCUMENT)
    assert table.playing("1.34") == ["two"]
    assert table.playing("1.34 + gate") == ["one", "two"]
    assert table.playing("1.34 + gate", smoke=True) == ["one"]
    assert table.playing("1.33") == []
    assert table.scenes["one"].left_out == {"1.34": "it takes two lines."}


@pytest.mark.parametrize("cell", ["", "C", "no"])
def test_cell_without_reason_is_an_error(cell: str) -> None:
    """A scene is not left out without a reason."""
    with pytest.raises(TableError, match=r"one, 1\.34"):
        read_table(_DOCUMENT.replace("| A |", f"| {cell} |"))


def test_column_and_gates_fit() -> None:
    """The gates of a column lead back to it."""
    table = read_table()
    for minor in minors():
        for column in table.columns_of(minor):
            assert column_of(minor, gates_of(column)) == column


def test_each_column_has_a_run() -> None:
    """A minor with a second column is run twice, besides the cluster's own tests."""
    runs = commands("1.34", smoke=False)
    assert [each.count("--all-scenes") for each in runs] == [0, 1, 1]
    assert [each.count("--gates") for each in runs] == [0, 0, 1]
    assert len(commands("1.34", smoke=True)) == 2
    assert len(commands("1.33", smoke=False)) == 1
