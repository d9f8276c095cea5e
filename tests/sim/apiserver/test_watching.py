"""What a watcher sees is enough to know the state, whatever happens and wherever it begins."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sim.apiserver.json_values import JsonObject
from sim.apiserver.patches import MERGE_PATCH, patched
from sim.apiserver.schemas import Shape
from sim.apiserver.selectors import Selection, parse_labels
from sim.apiserver.storage import Store
from sim.apiserver.watching import Watcher

_NAMES = st.sampled_from("abc")
_STEPS = st.lists(st.tuples(_NAMES, st.sampled_from(["x", "y", "delete"])), max_size=30)
_SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), st.text(max_size=3))
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=10,
)
_OBJECTS = st.dictionaries(st.sampled_from("abcd"), _JSON, max_size=4)


def _take(store: Store, name: str, label: str) -> None:
    key = ("", name)
    stored = store.get("things", key)
    if label != "delete":
        store.put("things", key, {"metadata": {"name": name, "labels": {"l": label}}})
    elif stored is not None:
        store.remove("things", key, stored)


def _follow(known: dict[str, JsonObject], watcher: Watcher) -> None:
    for kind, obj in watcher.take():
        name = obj["metadata"]["name"]
        assert (name in known) is (kind != "ADDED")
        if kind == "DELETED":
            del known[name]
        else:
            known[name] = obj


@given(before=_STEPS, after=_STEPS, selector=st.sampled_from(["", "l=x", "l!=x"]))
def test_a_watcher_knows_the_state(
    before: list[tuple[str, str]], after: list[tuple[str, str]], selector: str
) -> None:
    """A list and the watch from its revision give exactly what a later list gives."""
    store = Store(history_length=100)
    chosen = Selection(labels=parse_labels(selector))
    for step in before:
        _take(store, *step)
    known = {obj["metadata"]["name"]: obj for obj in store.select("things", chosen)}
    watcher = Watcher(store, "things", chosen, store.revision)
    for number, step in enumerate(after):
        _take(store, *step)
        if number % 3 == 0:
            _follow(known, watcher)
    _follow(known, watcher)
    assert known == {obj["metadata"]["name"]: obj for obj in store.select("things", chosen)}


def _difference(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the merge patch that leads from *old* to *new*."""
    patch: JsonObject = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            patch[key] = _difference(before, value)
        elif key not in old or _differ(before, value):
            patch[key] = value
    return patch


def _differ(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)


@given(old=_OBJECTS, new=_OBJECTS)
def test_a_merge_patch_leads_anywhere(old: JsonObject, new: JsonObject) -> None:
    """Between any two objects without nulls there is a merge patch, and it works."""
    shape = Shape("", {}, {})
    original = json.dumps(old)
    assert not _differ(patched(shape, old, _difference(old, new), MERGE_PATCH), new)
    assert json.dumps(old) == original
