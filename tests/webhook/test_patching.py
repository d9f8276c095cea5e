"""Patches, applied by a library that knows nothing of ours."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.patching import Patch, pointer

KEYS = st.sampled_from(["a", "nvidia.com/gpu", "~1", "", "a~b/c"])


def _applied(item: dict[str, Any], patch: Patch) -> Any:
    before = copy.deepcopy(item)
    after = jsonpatch.apply_patch(item, list(patch.operations))
    assert item == before
    return after


def test_a_field_is_set_with_the_objects_around_it() -> None:
    """Missing parents and null ones become objects; what is there stays."""
    item = {"metadata": {"annotations": None, "x": 1}}
    patch = Patch(item)
    patch.add("metadata", "annotations", "a/b", value="1")
    patch.add("metadata", "annotations", "a~c", value="2")
    patch.add("metadata", "labels", "c", value="3")
    assert _applied(item, patch) == {
        "metadata": {"annotations": {"a/b": "1", "a~c": "2"}, "x": 1, "labels": {"c": "3"}}
    }


def test_a_field_that_is_there_is_replaced() -> None:
    """The last word counts."""
    item = {"a": {"b": 1, "c": 2}}
    patch = Patch(item)
    patch.add("a", "b", value=3)
    assert _applied(item, patch) == {"a": {"b": 3, "c": 2}}


def test_entries_are_appended_in_order() -> None:
    """A list that is there grows, and one that is not is made once."""
    item: dict[str, Any] = {"old": [0], "none": None, "of": [{"x": 1}]}
    patch = Patch(item)
    for value in (1, 2):
        patch.append("old", value=value)
        patch.append("none", value=value)
        patch.append("of", 0, "new", value=value)
    assert _applied(item, patch) == {
        "old": [0, 1, 2],
        "none": [1, 2],
        "of": [{"x": 1, "new": [1, 2]}],
    }


def test_nothing_is_removed_that_was_not_looked_at() -> None:
    """If the value has changed meanwhile the whole patch fails."""
    item = {"limits": {"nvidia.com/gpu": "1", "cpu": "1"}}
    patch = Patch(item)
    patch.remove("limits", keys=["nvidia.com/gpu"])
    assert _applied(item, patch) == {"limits": {"cpu": "1"}}
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch({"limits": {"nvidia.com/gpu": "2"}}, list(patch.operations))


@given(
    item=st.recursive(st.none() | st.integers(), lambda inner: st.dictionaries(KEYS, inner)),
    path=st.lists(KEYS, min_size=1, max_size=4),
)
def test_a_pointer_leads_to_its_field(item: Any, path: list[str]) -> None:
    """Whatever the keys, the field that was set is the one that was meant."""
    whole = {"root": item if isinstance(item, dict) else {}}
    at: Any = whole["root"]
    for step in path[:-1]:
        at = at.get(step)
        if not isinstance(at, dict):
            break
    if at is None or isinstance(at, dict):
        patch = Patch(whole)
        patch.add("root", *path, value="set")
        found = _applied(whole, patch)["root"]
        for step in path:
            found = found[step]
        assert found == "set"


def test_an_empty_path_is_the_object() -> None:
    """As RFC 6901 says."""
    assert pointer() == ""
    assert pointer("a/b", 0, "~") == "/a~1b/0/~0"
