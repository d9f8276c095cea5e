"""Tests of a node's notes about its devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.annotations import (
    PairScores,
    Undecodable,
    decode_cordon,
    decode_scores,
    decode_topology,
    encode_scores,
)
from tests.hami.codecs import TEXTS, reason


def test_scores_of_pairs() -> None:
    """They are written as they were read; a GPU by itself has no pairs."""
    text = '[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20}},{"uuid":"GPU-9"}]'
    scores = {"GPU-0": {"GPU-1": 50, "GPU-2": 20}, "GPU-9": {}}
    assert decode_scores(text) == scores
    assert encode_scores(scores) == text
    assert decode_scores('[{"uuid":"a","score":{}},{"uuid":"b","score":null}]') == {
        "a": {},
        "b": {},
    }
    assert encode_scores({"a": {"c": 1, "b": 2}}) == '[{"uuid":"a","score":{"b":2,"c":1}}]'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[{}]",
        '[{"uuid":"a","score":[]}]',
        '[{"uuid":"a","score":{"b":1.5}}]',
        '[{"uuid":"a","score":{"b":"1"}}]',
        '[{"uuid":"a","score":{"b":9223372036854775808}}]',
        '[{"uuid":"a"},{"uuid":"a"}]',
    ],
)
def test_scores_unreadable(text: str) -> None:
    """One bad number makes all unreadable."""
    assert reason(decode_scores(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dev-1, ", {"dev-1"}),
        (" a ,b,, c", {"a", "b", "c"}),
        ("", set()),
        (" , ", set()),
        ("a,a", {"a"}),
    ],
)
def test_cordoned_devices(text: str, expected: set[str]) -> None:
    """Blanks and empty members mean nothing."""
    assert decode_cordon(text) == expected


def test_numbers_of_metax() -> None:
    """They are by the number of GPUs that are taken."""
    assert decode_topology('{"1":10,"2":-4}') == {1: 10, 2: -4}
    for text in ("", "[]", '{"a":1}', '{"-1":1}', '{"1":"1"}', '{"1":1.0}', "null"):
        assert reason(decode_topology(text))


@given(st.dictionaries(TEXTS.filter(bool), st.dictionaries(TEXTS, st.integers(-99, 99))))
def test_round_trip(scores: PairScores) -> None:
    """What is written is read as it was."""
    assert decode_scores(encode_scores(scores)) == scores


@given(st.text())
def test_no_text_raises(text: str) -> None:
    """What is nothing says so."""
    for read in (decode_scores, decode_topology):
        assert isinstance(read(text), dict | Undecodable)
    assert all(each and each == each.strip() for each in decode_cordon(text))
