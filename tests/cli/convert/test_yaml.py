"""Manifests are read as kubectl reads them, and written so that every parser agrees."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cli.convert.reading import documents
from cli.convert.writing import yaml_of

_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


def read(text: str) -> tuple[Any, tuple[str, ...]]:
    """Return the only object in *text* and its warnings."""
    (found,) = documents(text)
    return found


def test_unquoted_words_are_texts_where_texts_are_wanted() -> None:
    """A selector of `on` is the text, with a warning that it must be quoted."""
    item, warnings = read("spec: {nodeSelector: {gpu: on, other: 'yes'}, hostNetwork: yes}")
    assert item == {"spec": {"nodeSelector": {"gpu": "on", "other": "yes"}, "hostNetwork": True}}
    assert warnings == (
        'spec.nodeSelector.gpu: unquoted `on` is a boolean to Kubernetes; write "on"',
    )


@pytest.mark.parametrize("word", ["y", "Yes", "ON", "true", "n", "No", "off", "False"])
def test_all_words_of_yaml_are_known(word: str) -> None:
    """Labels, annotations and variables keep each word; elsewhere it is a boolean."""
    text = f"metadata: {{labels: {{a: {word}}}, annotations: {{a: {word}}}}}\nspec:\n"
    text += f"  containers: [{{env: [{{name: a, value: {word}}}], tty: {word}}}]"
    item, warnings = read(text)
    assert len(warnings) == 3
    assert item["metadata"] == {"labels": {"a": word}, "annotations": {"a": word}}
    (container,) = item["spec"]["containers"]
    assert container["env"] == [{"name": "a", "value": word}]
    assert container["tty"] is (word.lower() in {"y", "yes", "on", "true"})


def test_numbers_are_those_of_kubectl() -> None:
    """Octal, hexadecimal and plain integers are numbers; times and base 60 are texts."""
    said = ("0644", "0x1f", "12", "-3", "22:22", "2020-01-01", "0", "1_000", "08", "0o17")
    item, _ = read(f"a: [{', '.join(said)}]")
    assert item == {"a": [420, 31, 12, -3, "22:22", "2020-01-01", 0, 1000, "08", 15]}


def test_empty_documents_are_passed_over() -> None:
    """Separators without anything between them make no objects."""
    assert [item for item, _ in documents("---\n---\na: b\n---\n# nothing\n")] == [{"a": "b"}]


@pytest.mark.parametrize(
    "text", ["y", "N", "on", "1e3", "0o17", "012", "1_0", ".5", "~", "", "a: b"]
)
def test_texts_that_look_like_something_else_are_quoted(text: str) -> None:
    """What another parser could take for a boolean or number stands in quotes."""
    assert yaml_of({"a": text}).startswith(("a: '", 'a: "'))


@given(st.dictionaries(_TEXTS, _JSON, max_size=4))
def test_what_is_written_is_read_again(item: dict[str, Any]) -> None:
    """Both parsers read what is written as it was."""
    text = yaml_of(item)
    assert yaml.safe_load(text) == item
    if item:
        (found, warnings), *others = documents(text)
        assert (found, others) == (item, [])
        assert not warnings or "quoted" in warnings[0]
