"""State files with a right checksum and a wrong content, and with two kinds of damage at once."""

import zlib
from pathlib import Path
from typing import Any

import pytest

from dra.contents import Contents
from dra.generations import Generations
from dra.journal import DamagedError, decode_lines, encode_line
from dra.record import PREPARED_CLAIM
from tests.dra.builders import a_limited_record, a_record
from tests.dra.stores import opened, put


def state_of(directory: Path, snapshot: Any, *records: Any) -> None:
    """Leave a generation with *snapshot* and *records*, whatever they are."""
    Generations(directory).snapshot_path(1).write_bytes(encode_line(snapshot))
    Generations(directory).journal_path(1).write_bytes(b"".join(map(encode_line, records)))


def read(directory: Path) -> Contents:
    """Return what the state in *directory* says, as a start reads it."""
    generations = Generations(directory)
    loaded = generations.load()
    return Contents.of(loaded, generations.snapshot_path(loaded.generation))


def an_entry(**changes: Any) -> dict[str, Any]:
    """Return the record of a limited claim in JSON, its device with *changes*."""
    entry: dict[str, Any] = PREPARED_CLAIM.dump_python(a_limited_record(1), mode="json")
    entry["devices"][0].update(changes)
    return entry


@pytest.mark.parametrize(
    "snapshot",
    [
        {"version": 1},
        {"version": 1, "claims": None},
        {"version": 1, "claims": 5},
        {"version": 1, "claims": [], "released": 7},
        {"version": 1, "claims": [], "released": ["uid"]},
        {"version": 1, "claims": ["uid"]},
    ],
)
def test_a_snapshot_without_its_lists_is_damaged(tmp_path: Path, snapshot: Any) -> None:
    """It would look like a node on which nothing is prepared."""
    state_of(tmp_path, snapshot)
    with pytest.raises(DamagedError, match=r"snapshot\.00000001"):
        read(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_mib": "1000"},
        {"memory_mib": 1000.0},
        {"memory_mib": True},
        {"cores_percent": -1},
        {"shares": -1},
        {"dedicated": 0},
        {"admin": "yes"},
    ],
    ids=str,
)
def test_a_number_of_another_type_is_damaged(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A record holds what was written, or it is refused: nothing is converted or below zero."""
    state_of(tmp_path, {"version": 1, "claims": [an_entry(**changes)]})
    with pytest.raises(DamagedError, match="unreadable record"):
        read(tmp_path)


def test_a_time_without_end_is_damaged(tmp_path: Path) -> None:
    """JSON as Python reads it knows infinity, a tombstone does not."""
    tomb = {"op": "released", "uid": "u", "at": float("inf"), "resourceVersion": "7"}
    state_of(tmp_path, {"version": 1, "claims": []}, tomb)
    with pytest.raises(DamagedError, match="unreadable record"):
        read(tmp_path)


def test_a_tombstone_cannot_say_that_it_is_something_else(tmp_path: Path) -> None:
    """What stands in the list of released claims is a release, whatever its fields are."""
    tomb = {"op": "prepared", "claim": an_entry(), "uid": "u", "at": 1, "resourceVersion": "7"}
    state_of(tmp_path, {"version": 1, "claims": [], "released": [tomb]})
    store = opened(tmp_path)
    assert not store.claims()
    store.close()


def test_a_record_too_deep_to_read_is_damaged() -> None:
    """A right checksum over a hundred thousand brackets is no record."""
    text = b"[" * 100_000
    with pytest.raises(DamagedError, match="line 1"):
        list(decode_lines(Path("journal.00000001"), b"%08x %s\n" % (zlib.crc32(text), text)))


def test_records_after_a_snapshot_that_is_gone_are_not_lost(tmp_path: Path) -> None:
    """They follow those of the generation before, and later starts find them too."""
    store = opened(tmp_path)
    put(store, a_record(1))
    store.close()
    store = opened(tmp_path)
    put(store, a_record(2))
    store.close()
    generations = Generations(tmp_path)
    generations.snapshot_path(generations.newest()).unlink()
    for _ in range(3):
        store = opened(tmp_path)
        assert store.claims().keys() == {a_record(1).uid, a_record(2).uid}
        store.close()


@pytest.mark.parametrize("loss", ["cut", "missing"])
def test_an_older_journal_with_a_loss_is_no_way_back(tmp_path: Path, loss: str) -> None:
    """Without the newest snapshot every record before it counts: one that is gone is an error."""
    store = opened(tmp_path)
    put(store, a_record(1), a_record(2))
    store.close()
    opened(tmp_path).close()
    generations = Generations(tmp_path)
    newest = generations.newest()
    generations.snapshot_path(newest).write_bytes(b"damaged\n")
    older = generations.journal_path(newest - 1)
    assert len(older.read_bytes().splitlines()) == 2
    if loss == "cut":
        older.write_bytes(older.read_bytes()[:-1])
    else:
        older.unlink()
    with pytest.raises(DamagedError, match=f"{older.name}: is {loss}"):
        read(tmp_path)
