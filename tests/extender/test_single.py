"""A mapping of one entry behaves as a `dict` of the same does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.single import Single, small


@given(key=st.text(), value=st.integers(), other=st.dictionaries(st.text(), st.integers()))
def test_it_is_as_good_as_a_dict(key: str, value: int, other: dict[str, int]) -> None:
    """Entries, equality and text are those of the `dict`."""
    same, found = {key: value}, Single(key, value)
    assert found == same
    assert same == found
    assert (found == other) is (same == other)
    assert (found == small(other)) is (same == other)
    assert list(found.items()) == list(same.items())
    assert (found.get(key), found.get(key + "x"), len(found)) == (value, None, 1)
    assert repr(found) == repr(same)
    with pytest.raises(KeyError):
        found[key + "x"]


@given(mapping=st.dictionaries(st.text(), st.integers(), max_size=3))
def test_small_mappings_are_equal(mapping: dict[str, int]) -> None:
    """Whatever a mapping has is there afterwards."""
    assert dict(small(mapping)) == mapping
