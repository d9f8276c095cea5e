"""Lines with a checksum, and files that appear whole."""

import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdi.durable import Whole
from cdi.faults import FaultPoint
from dra.journal import (
    DamagedError,
    decode_lines,
    encode_line,
    read_whole,
    whole_lines,
    write_whole,
)

VALUES = st.none() | st.integers() | st.text(max_size=9) | st.lists(st.integers(), max_size=3)
RECORDS = st.dictionaries(st.text(max_size=9), VALUES, max_size=3)
POINTS = Whole(FaultPoint.SNAPSHOT_TEMPORARY_WRITTEN, FaultPoint.SNAPSHOT_WRITTEN)
PATH = Path("journal.00000001")


@given(st.lists(RECORDS, max_size=5))
def test_records_come_back_as_written(records: list[dict[str, Any]]) -> None:
    """Whatever JSON can say survives, line breaks in strings included."""
    data = b"".join(map(encode_line, records))
    assert list(decode_lines(PATH, data)) == records


@given(RECORDS, RECORDS, st.data())
def test_a_cut_line_is_told_from_whole_ones(
    first: dict[str, Any], second: dict[str, Any], data: st.DataObject
) -> None:
    """Whatever a crash cut off the last line, the lines before it remain."""
    whole, cut = encode_line(first), encode_line(second)
    length = data.draw(st.integers(0, len(cut) - 1))
    assert whole_lines(whole + cut[:length]) == whole


@given(RECORDS, st.data())
def test_any_changed_byte_is_noticed(record: dict[str, Any], data: st.DataObject) -> None:
    """A line with one wrong byte is damaged, and the message says which line of which file."""
    line = bytearray(encode_line(record))
    place = data.draw(st.integers(0, len(line) - 2))
    line[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedError, match=r"journal\.00000001: line [1-9]"):
        list(decode_lines(PATH, bytes(line)))


def test_a_line_that_is_no_object_is_damaged() -> None:
    """A right checksum over something else is no record."""
    with pytest.raises(DamagedError, match="is not an object"):
        list(decode_lines(PATH, b"%08x [1]\n" % zlib.crc32(b"[1]")))


def test_a_whole_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    """Writing leaves the new content, nothing else, and only for its owner."""
    path = tmp_path / "snapshot"
    write_whole(path, {"a": 1}, POINTS)
    write_whole(path, {"a": 2}, POINTS)
    assert read_whole(path) == {"a": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["snapshot"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"00000000 {}", b"x\ny\n", b"zz {}\n"])
def test_a_file_that_is_not_one_good_line_is_damaged(tmp_path: Path, content: bytes) -> None:
    """Empty, cut, doubled and garbage files are told by name."""
    path = tmp_path / "snapshot"
    path.write_bytes(content)
    with pytest.raises(DamagedError, match="snapshot"):
        read_whole(path)
