"""What a list and the events after it make of what was known."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kube.objects import JsonObject, ObjectKey
from kube.store import Change, ChangeKind, Store, UnwantedError


def thing(name: str, version: int = 1, *, uid: str = "u", value: Any = 0) -> JsonObject:
    """Build an object."""
    metadata = {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, "value": value}


def decode(item: JsonObject) -> int:
    """Read the value, strictly."""
    return int(item["value"])


def key(name: str) -> ObjectKey:
    """Name an object."""
    return ObjectKey("ns", name)


def told(changes: list[Change[int]]) -> list[tuple[str, str, int | None, int | None]]:
    """Shorten changes for comparison."""
    return [(change.kind.value, change.key.name, change.old, change.new) for change in changes]


def test_a_list_tells_what_came_changed_and_went() -> None:
    """The difference to what was known, deletions first."""
    store = Store(decode)
    store.replace([thing("gone", value=1), thing("same", value=2), thing("new-value", value=3)])
    changes = store.replace(
        [thing("same", value=2), thing("new-value", 9, value=4), thing("fresh", value=5)]
    )
    assert told(changes) == [
        ("deleted", "gone", 1, None),
        ("modified", "new-value", 3, 4),
        ("added", "fresh", None, 5),
    ]
    assert store.items() == {key("same"): 2, key("new-value"): 4, key("fresh"): 5}


def test_an_object_made_again_is_another_one() -> None:
    """A new UID under the old name is a deletion and an addition, by list and by event."""
    store = Store(decode)
    store.replace([thing("a", uid="1", value=1)])
    again = [("deleted", "a", 1, None), ("added", "a", None, 2)]
    assert told(store.put(thing("a", 5, uid="2", value=2))) == again
    again = [("deleted", "a", 2, None), ("added", "a", None, 3)]
    assert told(store.replace([thing("a", 6, uid="3", value=3)])) == again


def test_events_change_one_object() -> None:
    """Added, modified, repeated without change, deleted, deleted again."""
    store = Store(decode)
    assert told(store.put(thing("a", value=1))) == [("added", "a", None, 1)]
    assert told(store.put(thing("a", 2, value=2))) == [("modified", "a", 1, 2)]
    assert told(store.put(thing("a", 2, value=2))) == []
    assert told(store.drop(thing("a", 3))) == [("deleted", "a", 2, None)]
    assert told(store.drop(thing("a", 3))) == []
    assert store.items() == {}


def test_an_object_that_cannot_be_decoded_is_left_out_alone() -> None:
    """The others of the list are taken; one that was known before is dropped."""
    store = Store(decode)
    changes = store.replace([thing("bad", value="x"), thing("good", value=1)])
    assert told(changes) == [("added", "good", None, 1)]
    assert told(store.put(thing("good", 2, value=None))) == [("deleted", "good", 1, None)]
    assert told(store.put(thing("good", 3, value=2))) == [("added", "good", None, 2)]


def test_an_object_that_nobody_wants_is_left_out_without_a_word() -> None:
    """It is dropped if it was wanted before, and nothing is logged, since most may be such."""

    def wanted(item: JsonObject) -> int:
        if item["value"] < 0:
            raise UnwantedError
        return int(item["value"])

    store = Store(wanted)
    store.put(thing("a", 1, value=1))
    with capture_logs() as logs:
        (change,) = store.put(thing("a", 2, value=-1))
        assert not store.replace([thing("b", 3, value=-1)])
    assert change.kind is ChangeKind.DELETED
    assert not logs


def test_an_object_without_a_name_is_skipped() -> None:
    """Not even its metadata need be there."""
    store = Store(decode)
    nameless: list[Any] = [{}, {"metadata": {}}, {"metadata": None}, None]
    assert told(store.replace([*nameless, thing("a")])) == [("added", "a", None, 0)]
    for item in nameless:
        assert store.put(item) == store.drop(item) == []


def test_a_copy_stays_as_it_was() -> None:
    """Later changes do not reach a copy taken before."""
    store = Store(decode)
    store.put(thing("a"))
    copy = store.items()
    store.put(thing("b"))
    assert copy == {key("a"): 0}


def test_a_key_reads_as_namespace_and_name() -> None:
    """Cluster-wide objects have only a name."""
    assert str(key("a")) == "ns/a"
    assert str(ObjectKey("", "node")) == "node"


objects = st.builds(
    thing,
    st.sampled_from("abc"),
    st.integers(1, 3),
    uid=st.sampled_from("12"),
    value=st.integers(0, 3) | st.just("bad"),
)
steps = st.lists(
    st.tuples(st.just("list"), st.lists(objects, unique_by=lambda item: item["metadata"]["name"]))
    | st.tuples(st.sampled_from(["put", "drop"]), objects.map(lambda item: [item])),
    max_size=12,
)


@settings(max_examples=60)
@given(steps)
def test_whoever_applies_the_changes_has_what_the_store_has(
    script: list[tuple[str, list[JsonObject]]],
) -> None:
    """Each change fits what went before, and none is missing."""
    store = Store(decode)
    mirror: dict[ObjectKey, int] = {}
    for action, items in script:
        if action == "list":
            changes = store.replace(items)
        else:
            changes = store.put(items[0]) if action == "put" else store.drop(items[0])
        for change in changes:
            assert mirror.pop(change.key, None) == change.old
            assert (change.old is None, change.new is None) == {
                ChangeKind.ADDED: (True, False),
                ChangeKind.MODIFIED: (False, False),
                ChangeKind.DELETED: (False, True),
            }[change.kind]
            if change.new is not None:
                mirror[change.key] = change.new
        assert mirror == store.items()


@given(
    one=st.sampled_from(["", "0", "7", "07", "\u0667", "7a", "9" * 19, "9" * 25]),
    two=st.sampled_from(["", "0", "7", "07", "\u0667", "7a", "9" * 19, "9" * 25]),
)
def test_versions_are_compared_as_texts(one: str, two: str) -> None:
    """Only the very same version of an object is taken for known, whatever it looks like."""
    store = Store(decode)
    first, second = thing("a", value=1), thing("a", value=2)
    first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"] = one, two
    store.put(first)
    known = bool(one) and one == two
    assert told(store.put(second)) == ([] if known else [("modified", "a", 1, 2)])
