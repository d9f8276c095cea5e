"""Slices on the server that no server should hold: they go, and do not stop the others."""

from typing import Any

import pytest

from dra.slice_plan import plan_slices
from tests.fuzz.slices import DESIRED, stored

GOOD = stored(DESIRED[0], "00000-a", 3, "00")


def odd(**spec: Any) -> dict[str, Any]:
    """Return a slice with *spec* over that of a good one."""
    item = stored(DESIRED[0], "00000-0", 3, "00")
    return item | {"spec": item["spec"] | spec}


@pytest.mark.parametrize(
    "spec",
    [
        {"devices": 5},
        {"devices": ["text"]},
        {"devices": [{"name": "d", "capacity": [1]}]},
        {"devices": [{"name": "d", "capacity": {"memory": {"requestPolicy": 1}}}]},
        {"devices": [{"name": "d", "taints": [{"key": ["unhashable"]}]}]},
        {"pool": None},
        {"pool": {"name": "node-1", "generation": "many"}},
        {"pool": {"name": "node-1", "generation": float("inf")}},
    ],
    ids=str,
)
def test_a_slice_that_is_none_is_deleted(spec: dict[str, Any]) -> None:
    """It is the only one that is touched where the others are as wanted."""
    unreadable = odd(**spec)
    plan = plan_slices(DESIRED, [GOOD, unreadable])
    assert plan.deletes == (unreadable,)
    assert not plan.updates
    assert not plan.creates


def test_a_slice_without_a_name_is_passed_over() -> None:
    """Nothing can be asked of the server about it."""
    assert plan_slices(DESIRED, [GOOD, {"spec": {}}]).is_empty()


def test_an_error_of_our_own_is_no_odd_slice() -> None:
    """What is wanted has to be a slice: nothing is deleted for a mistake of this program."""
    with pytest.raises(KeyError):
        plan_slices([{"spec": {}}], [GOOD])
