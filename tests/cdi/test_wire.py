"""JSON as the CDI library's decoder reads it, where Python's reads it otherwise."""

import pytest

from cdi.edits import ContainerEdits
from cdi.errors import SpecError
from cdi.spec import Device, Spec, render
from cdi.wire import read_json


def test_half_a_surrogate_pair_becomes_the_sign_for_it() -> None:
    """In keys, lists and values alike; whole pairs stay the character that they are."""
    found = read_json(rb'{"\ud800": ["a\udfffb", "\ud83d\ude00", "\\ud800", 1, null]}')
    assert found == {"\ufffd": ["a\ufffdb", "\U0001f600", r"\ud800", 1, None]}


def test_what_was_read_with_half_a_pair_can_be_written() -> None:
    """A version and a text that hold one are refused or taken by our own error only."""
    with pytest.raises(SpecError, match="cdiVersion"):
        Spec.parse(rb'{"cdiVersion": "\ud800"}')
    edits = ContainerEdits(env=("A=x",))
    spec = Spec(
        cdi_version="0.5.0", kind="a.b/c", devices=(Device(name="d", container_edits=edits),)
    )
    read = Spec.parse(render(spec).replace(b"A=x", rb"A=\ud800"))
    assert read.devices[0].container_edits.env == ("A=\ufffd",)
    assert Spec.parse(render(read)) == read


def test_two_keys_that_become_one_are_given_twice() -> None:
    """Neither is dropped in silence."""
    with pytest.raises(SpecError, match="given twice"):
        read_json(rb'{"\ud800": 1, "\ud801": 2}')
