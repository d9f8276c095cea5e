"""What earlier versions wrote is read as they meant it, and they can read what is written now."""

import json
from pathlib import Path
from typing import Any

import pytest

from dra.record import PREPARED_CLAIM
from dra.state import StateStore
from tests.dra.recorded_states import STATES, Change, put, read, unchanged, with_added_fields
from tests.dra.stores import opened

pytestmark = pytest.mark.parametrize("recorded", STATES, ids=lambda path: path.name)


def check_says(store: StateStore, expected: dict[str, Any]) -> None:
    """Check that *store* holds what was recorded, and nothing else."""
    claims = {
        uid: PREPARED_CLAIM.dump_python(claim, mode="json") for uid, claim in store.claims().items()
    }
    assert claims.keys() == expected["claims"].keys()
    for uid, claim in claims.items():
        # A later version may know more of a claim than the one that recorded it.
        assert expected["claims"][uid].items() <= claim.items()
    with store.transaction() as transaction:
        for uid, tombstone in expected["released"].items():
            released = transaction.released(uid)
            assert released is not None
            assert (released.at_s, released.resource_version) == tuple(tombstone.values())


@pytest.mark.parametrize("change", [unchanged, with_added_fields])
def test_a_recorded_state_says_the_same(tmp_path: Path, recorded: Path, change: Change) -> None:
    """Claims and tombstones over an upgrade, and over a downgrade that meets unknown fields."""
    expected = read(recorded, "expected.json")
    put(recorded, tmp_path / "state", change)
    store = StateStore(tmp_path / "state", boot_id="a later boot")
    assert store.open() == expected["bootId"]
    check_says(store, expected)
    store.close()
    again = opened(tmp_path / "state")
    check_says(again, expected)
    again.close()


@pytest.mark.parametrize("change", [unchanged, with_added_fields])
def test_one_damaged_file_of_a_recorded_state_costs_nothing(
    tmp_path: Path, recorded: Path, change: Change
) -> None:
    """The generation before the newest is read by the same rules."""
    put(recorded, tmp_path / "state", change)
    max((tmp_path / "state").glob("snapshot.*")).write_bytes(b"")
    store = opened(tmp_path / "state")
    check_says(store, read(recorded, "expected.json"))
    store.close()


def test_what_is_written_now_has_all_that_was_written_then(tmp_path: Path, recorded: Path) -> None:
    """An older version finds its format number and every field, with the same values."""
    put(recorded, tmp_path / "state")
    opened(tmp_path / "state").close()
    newest = max((tmp_path / "state").glob("snapshot.*"))
    assert newest.name > max(path.name for path in (recorded / "state").glob("snapshot.*"))
    written = json.loads(newest.read_bytes()[9:])
    oldest = json.loads(min((recorded / "state").glob("snapshot.*")).read_bytes()[9:])
    expected = read(recorded, "expected.json")
    assert written["version"] == oldest["version"]
    assert written.keys() >= oldest.keys()
    assert "rebuilding" not in written
    claims = {claim["uid"]: claim for claim in written["claims"]}
    for uid, claim in expected["claims"].items():
        assert holds(claims[uid], claim)
    released = {each["uid"]: each for each in written["released"]}
    for uid, tombstone in expected["released"].items():
        assert holds(released[uid], tombstone)


def holds(now: Any, then: Any) -> bool:
    """Tell whether *now* has everything that *then* has."""
    if isinstance(then, dict):
        return all(holds(now[name], value) for name, value in then.items())
    if isinstance(then, list):
        return all(holds(*pair) for pair in zip(now, then, strict=True))
    return bool(now == then)
