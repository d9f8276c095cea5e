"""Which XIDs count against a GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import xids
from gpu.xids import XidPolicy, XidSet

NUMBERS = st.integers(1, 65535)


@pytest.mark.parametrize(
    ("xid", "is_critical"),
    [
        *((xid, False) for xid in (13, 31, 43, 45, 68, 109)),
        (137, False),
        *((xid, False) for xid in (63, 92, 94, 121)),
        *((xid, False) for xid in (106, 107, 154)),
        *((xid, True) for xid in (32, 46, 48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 158)),
        *((xid, True) for xid in (0, 1, 999, 65535, 2**64 - 1)),
    ],
)
def test_the_table(xid: int, is_critical: bool) -> None:  # noqa: FBT001
    """Errors of programs, contained ones and reports are none of the GPU; all others are."""
    assert XidPolicy().is_critical(xid) is is_critical


@given(xid=NUMBERS, ignored=st.frozensets(NUMBERS), critical=st.frozensets(NUMBERS))
def test_an_administrator_has_the_last_word(
    xid: int, ignored: frozenset[int], critical: frozenset[int]
) -> None:
    """What is named critical is, even among the ignored; what is named ignored is else ignored."""
    policy = XidPolicy(ignored=XidSet(ignored), critical=XidSet(critical))
    if xid in critical:
        assert policy.is_critical(xid)
    elif xid in ignored:
        assert not policy.is_critical(xid)
    else:
        assert policy.is_critical(xid) == XidPolicy().is_critical(xid)


def test_all_can_be_ignored_but_some() -> None:
    """With all ignored nothing is critical but what is named so, and only then all is off."""
    off = XidPolicy(ignored=XidSet.parse(["all"]))
    some = XidPolicy(ignored=XidSet.parse(["all"]), critical=XidSet.parse(["79"]))
    everything = XidPolicy(critical=XidSet.parse(["all"]))
    assert [off.is_critical(xid) for xid in (13, 79, 999)] == [False, False, False]
    assert [some.is_critical(xid) for xid in (13, 79, 999)] == [False, True, False]
    assert [everything.is_critical(xid) for xid in (13, 94, 154)] == [True, True, True]
    assert (off.is_off, some.is_off, everything.is_off, XidPolicy().is_off) == (
        *(True, False, False, False),
    )


@given(numbers=st.lists(NUMBERS))
def test_numbers_are_read(numbers: list[int]) -> None:
    """A list of numbers names just these."""
    parsed = XidSet.parse([str(number) for number in numbers])
    assert parsed == XidSet(frozenset(numbers))
    assert all(number in parsed for number in numbers)


@pytest.mark.parametrize(
    "word", ["", "0", "-1", "+1", "1.5", "0x4f", "79 ", "seventy-nine", "ALL", "65536", "9" * 5000]
)
def test_what_is_no_number_is_named(word: str) -> None:
    """A mistake is not taken for something else."""
    with pytest.raises(ValueError, match="is no XID: give numbers from 1 to 65535, or `all`"):
        XidSet.parse(["48", word])


@pytest.mark.parametrize("words", [["all", "48"], ["48", "all"], ["all", "all"]])
def test_all_stands_by_itself(words: list[str]) -> None:
    """A list with numbers besides `all` is a misunderstanding."""
    with pytest.raises(ValueError, match="`all` stands by itself"):
        XidSet.parse(words)


def test_who_reads_another_convention_names_its_words() -> None:
    """HAMi's variables know another word for all, and some settings none."""
    assert XidSet.parse(["xids"], words_for_all=("all", "xids")).everything
    with pytest.raises(ValueError, match=r"`all` is no XID: give numbers from 1 to 65535$"):
        XidSet.parse(["all"], words_for_all=())


@given(xid=st.integers(0, 2**64 - 1))
def test_every_xid_has_a_meaning(xid: int) -> None:
    """A few words of ASCII, fit for a message of at most 200 characters."""
    words = xids.meaning(xid)
    assert words
    assert words.isascii()
    assert len(f"XID {xid}: {words}") <= 200
    assert xid not in xids.IGNORED or words != xids.meaning(999)
