"""Snapshots and journals in generations."""

from pathlib import Path
from typing import Any

import pytest

from dra.generations import Generations, UnknownFormatError
from dra.journal import DamagedError, encode_line
from tests.dra.disks import fill, small_disk


def append(generations: Generations, generation: int, *records: dict[str, Any]) -> None:
    """Append *records* to a journal as the state does."""
    with generations.journal_path(generation).open("ab") as journal:
        journal.write(b"".join(map(encode_line, records)))


def two_generations(directory: Path) -> Generations:
    """Return generation 1 (snapshot a, record b) and 2 (snapshot a and b, record c)."""
    generations = Generations(directory)
    generations.start(1, {"claims": ["a"]})
    append(generations, 1, {"op": "b"})
    generations.start(2, {"claims": ["a", "b"]})
    append(generations, 2, {"op": "c"})
    return generations


def damage(path: Path) -> None:
    """Change one byte in the middle of *path*."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_an_empty_directory_is_an_empty_state(tmp_path: Path) -> None:
    """Nothing was written yet: generation 0 without claims."""
    loaded = Generations(tmp_path).load()
    assert (loaded.generation, list(loaded.all_records())) == (0, [])


def test_a_first_start_that_was_killed_is_an_empty_state(tmp_path: Path) -> None:
    """An empty journal of generation 0 alone means that nothing was ever acknowledged."""
    (tmp_path / "journal.00000000").touch()
    assert Generations(tmp_path).load().generation == 0


def test_the_newest_snapshot_and_its_journal_are_the_state(tmp_path: Path) -> None:
    """Older generations do not count while the newest can be read."""
    loaded = two_generations(tmp_path).load()
    assert loaded.generation == 2
    assert loaded.snapshot["claims"] == ["a", "b"]
    assert loaded.records == [{"op": "c"}]


def test_two_generations_are_kept(tmp_path: Path) -> None:
    """Starting the third removes the first, and nothing else."""
    generations = two_generations(tmp_path)
    (tmp_path / "lock").touch()
    generations.start(3, {})
    generations.drop_before(2)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == [
        "journal.00000002",
        "journal.00000003",
        "lock",
        "snapshot.00000002",
        "snapshot.00000003",
    ]


@pytest.mark.parametrize("how", ["changed", "empty", "cut"])
def test_a_damaged_newest_snapshot_costs_nothing(tmp_path: Path, how: str) -> None:
    """The snapshot before it and both journals say the same."""
    generations = two_generations(tmp_path)
    path = generations.snapshot_path(2)
    if how == "changed":
        damage(path)
    else:
        path.write_bytes(b"" if how == "empty" else path.read_bytes()[:-5])
    loaded = generations.load()
    assert loaded.generation == 2
    assert loaded.snapshot["claims"] == ["a"]
    assert loaded.records == [{"op": "b"}, {"op": "c"}]


def test_two_damaged_snapshots_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    """Guessing would give a device away twice, so the start fails and says where."""
    generations = two_generations(tmp_path)
    damage(generations.snapshot_path(1))
    damage(generations.snapshot_path(2))
    with pytest.raises(DamagedError, match=r"snapshot\.00000001"):
        generations.load()


def test_a_damaged_journal_line_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    """What was acknowledged and cannot be read is not dropped in silence."""
    generations = two_generations(tmp_path)
    append(generations, 2, {"op": "d"}, {"op": "e"})
    path = generations.journal_path(2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"d", b"x") + lines[2])
    with pytest.raises(DamagedError, match=r"journal\.00000002: line 2"):
        generations.load()


def test_a_cut_last_line_is_dropped(tmp_path: Path) -> None:
    """A line without its end was never acknowledged."""
    generations = two_generations(tmp_path)
    size = generations.journal_path(2).stat().st_size
    with generations.journal_path(2).open("ab") as journal:
        journal.write(encode_line({"op": "d"})[:-3])
    loaded = generations.load()
    assert loaded.records == [{"op": "c"}]
    assert loaded.journal_bytes == size


def test_a_journal_without_any_snapshot_is_an_error(tmp_path: Path) -> None:
    """Somebody removed the snapshot: the journal alone is not the state."""
    append(Generations(tmp_path), 4, {"op": "d"})
    with pytest.raises(DamagedError, match="a journal but no snapshot"):
        Generations(tmp_path).load()


def test_a_format_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """An older program neither guesses nor falls back to what the newer one left behind."""
    generations = two_generations(tmp_path)
    generations.snapshot_path(2).write_bytes(encode_line({"version": 2, "claims": []}))
    with pytest.raises(UnknownFormatError, match=r"snapshot\.00000002: has format 2.*; run the"):
        generations.load()


@pytest.mark.parametrize("version", [None, "1", True, 0, -1, 1.5])
def test_a_format_that_none_can_have_is_damage(tmp_path: Path, version: object) -> None:
    """No version has ever written it, so the generation before is used."""
    generations = two_generations(tmp_path)
    generations.snapshot_path(2).write_bytes(encode_line({"version": version, "claims": []}))
    assert generations.load().snapshot["claims"] == ["a"]
    generations.snapshot_path(1).unlink()
    with pytest.raises(DamagedError, match=f"`{version}` is no format"):
        generations.load()


def test_a_kill_between_snapshot_and_journal_loses_nothing(tmp_path: Path) -> None:
    """A snapshot whose journal was not made yet is complete without."""
    generations = two_generations(tmp_path)
    generations.journal_path(2).unlink()
    loaded = generations.load()
    assert (loaded.generation, loaded.records) == (2, [])


def test_whether_a_generation_is_the_newest(tmp_path: Path) -> None:
    """A later one is noticed whether one or many were started meanwhile."""
    generations = two_generations(tmp_path)
    assert generations.is_newest(2)
    assert not generations.is_newest(1)
    generations.start(3, {})
    generations.start(4, {})
    assert not generations.is_newest(1)
    assert not generations.is_newest(2)


def test_a_snapshot_that_finds_no_room_leaves_the_old_generation(tmp_path: Path) -> None:
    """On a full disk the start fails, nothing of it remains, and later it succeeds."""
    with small_disk(tmp_path / "disk", size_kib=256) as disk:
        generations = two_generations(disk)
        ballast = fill(disk)
        with pytest.raises(OSError, match="No space left"):
            generations.start(3, {"claims": ["c" * 20000]})
        names = {path.name for path in disk.iterdir()}
        assert names == {
            "ballast",
            "journal.00000001",
            "journal.00000002",
            "snapshot.00000001",
            "snapshot.00000002",
        }
        assert generations.load().records == [{"op": "c"}]
        ballast.unlink()
        generations.start(3, {"claims": ["c" * 20000]})
        assert generations.load().generation == 3
