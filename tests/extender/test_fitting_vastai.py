"""Vastai and Biren: dies, and devices without a size."""

import pytest

from extender.model import NodeUsage
from tests.extender.nodes import (
    device,
    fit,
    limited,
    node,
    placed,
    pod,
    text,
    usage,
    uuids,
)
from tests.extender.vendornodes import MUTEX, devices


def dies(cards: str, *used: int) -> NodeUsage:
    """Return dies of the cards named by letter."""
    found = [
        usage(
            device(
                f"D{index}",
                index,
                word="Vastai",
                type="Vastai",
                count=1,
                mode="",
                custom={"AIC": card, "DeviceStrategy": "die"},
            )
        )
        for index, card in enumerate(cards)
    ]
    for index in used:
        found[index].used_slots = 1
    return node(*found)


VA = "vastaitech.com/va"


@pytest.mark.parametrize(
    ("cards", "used", "count", "annotations", "expected"),
    [
        ("aabbbc", (), 2, {}, "D4 D3"),
        ("aabb", (3,), 2, {}, "D1 D0"),
        ("aabb", (3,), 3, {}, "D1 D0 D2"),
        ("aabb", (3,), 1, {}, "D2"),
        ("aabb", (3,), 1, MUTEX, "D1"),
        (
            "aab",
            (0,),
            2,
            MUTEX,
            (
                "1/3 AllocatedCardsInsufficientRequest, 1/3 CardTimeSlicingExhausted, "
                "1/3 ExclusiveDeviceAllocateConflict"
            ),
        ),
    ],
)
def test_dies_come_from_few_cards(
    cards: str, used: tuple[int, ...], count: int, annotations: dict[str, str], expected: str
) -> None:
    """Of a card in use none for a pod that wants its device alone."""
    raw = pod(limited(**{VA: count}), annotations=annotations)
    assert uuids(fit(dies(cards, *used), raw), "Vastai") == expected


def test_dies_of_one_card_are_worth_more() -> None:
    """The share of the largest card."""
    raw = pod(limited(**{VA: 2}))
    assert placed(fit(dies("aa"), raw)).score == 1.0
    assert placed(fit(dies("ab"), raw)).score == 0.5


@pytest.mark.parametrize(("word", "name"), [("Vastai", VA), ("Biren", "birentech.com/gpu")])
def test_devices_without_a_size_are_counted(word: str, name: str) -> None:
    """Nothing is booked but a slot, and the slots run out."""
    two = devices(word, 2, count=2)
    two[1].used_slots = 2
    assert text(fit(node(*two), pod(limited(**{name: 1}))), word) == f"D0,{word},0,0:;"
    two[0].used_slots = 2
    refusal = "2/2 CardTimeSlicingExhausted"
    assert text(fit(node(*two), pod(limited(**{name: 1})))) == refusal
