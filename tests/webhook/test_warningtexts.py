"""Warnings that reach the user."""

from hypothesis import given
from hypothesis import strategies as st

from webhook.warningtexts import ALL_MAX, EACH_MAX, cut


def test_short_warnings_stay_as_they_are() -> None:
    """Order and text are kept, repetitions are not."""
    assert cut(["b", "a", "b"]) == ("b", "a")


def test_a_long_warning_is_cut_with_a_mark() -> None:
    """The user sees that there was more."""
    (text,) = cut(["x" * 300])
    assert len(text) == EACH_MAX
    assert text.endswith("x…")


def test_too_many_warnings_are_counted() -> None:
    """The last one says how many are not shown."""
    texts = [f"{number:03}" + "x" * 200 for number in range(100)]
    kept = cut(texts)
    assert kept[:-1] == tuple(texts[: len(kept) - 1])
    assert kept[-1] == f"{100 - len(kept) + 1} more warnings are not shown"


def test_control_characters_become_blanks() -> None:
    """A header cannot hold them."""
    assert cut(["a\r\nb\x00c\x85d"]) == ("a b c d",)


@given(st.lists(st.text(max_size=400), max_size=60))
def test_whatever_comes_fits(texts: list[str]) -> None:
    """The API server never has to cut anything."""
    kept = cut(texts)
    assert sum(map(len, kept)) <= ALL_MAX
    assert all(len(text) <= EACH_MAX for text in kept)
    assert all(text.isprintable() or not text.isascii() for text in kept)
