"""Which ids kubelet is told to take."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami.deviceids import physical_uuid
from hami.plugin.preferring import preferred
from tests.hami.plugin.placed import uuid

ALL = [f"{uuid(card)}-{part}" for card in range(8) for part in range(10)]


def test_eight_cards_of_eighty_ids() -> None:
    """One id of each card that was decided, never two of one."""
    decided = [uuid(card) for card in range(8)]
    found = preferred(reversed(ALL), [], 8, decided)
    assert [physical_uuid(each) for each in found] == decided
    assert found[0] == f"{uuid(0)}-0"


@pytest.mark.parametrize(
    ("available", "included", "size", "cards", "expected"),
    [
        (["0-2", "0-10", "1-0"], [], 1, [0], ["0-2"]),
        (["0-0", "1-0"], ["0-0"], 2, [0, 1], ["0-0", "1-0"]),
        (["0-3", "2-0", "1-0"], ["2-0"], 2, [0, 1], ["2-0", "0-3"]),
        (["1-0"], [], 1, [0], []),
        (["0-0"], [], 2, [0, 1], []),
        (["0-0", "1-0"], [], 1, [0, 1], ["0-0"]),
        (["0-0"], ["1-0", "2-0"], 1, [0], []),
        ([], [], 0, [], []),
    ],
)
def test_ids_that_must_be_there_come_first(
    available: list[str], included: list[str], size: int, cards: list[int], expected: list[str]
) -> None:
    """Then ids of the decided cards; an answer of another size is none."""

    def whole(ids: Sequence[str]) -> list[str]:
        return [f"{uuid(int(each[0]))}{each[1:]}" for each in ids]

    decided = [uuid(card) for card in cards]
    assert list(preferred(whole(available), whole(included), size, decided)) == whole(expected)


@given(
    available=st.sets(st.sampled_from(ALL)),
    included=st.sets(st.sampled_from(ALL), max_size=3),
    size=st.integers(0, 8),
    cards=st.permutations(range(8)),
)
def test_an_answer_is_one_that_kubelet_takes(
    available: set[str], included: set[str], size: int, cards: list[int]
) -> None:
    """Of exactly the size, of what is available, with all that must be there, or none."""
    decided = [uuid(card) for card in cards[:size]]
    found = preferred(available, sorted(included), size, decided)
    if found:
        assert len(found) == len(set(found)) == size
        assert included <= set(found) <= available | included
        chosen = {physical_uuid(each) for each in set(found) - included}
        assert chosen <= set(decided)
        assert len(chosen) == size - len(included)
