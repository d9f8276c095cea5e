"""Tests of the points of pairs of cards."""

import pytest

from gpu.links import Link, Nearness
from gpu.model import GpuUuid
from hami.plugin.links import score, scores
from hami.plugin.model import Offer
from tests.hami.codecs import a_device


def a_link(
    one: str = "GPU-a",
    other: str = "GPU-b",
    nvlinks: tuple[int, int] = (0, 0),
    *,
    nearness: str | None,
) -> Link:
    """Return what is between two GPUs."""
    return Link(
        one=GpuUuid(one),
        other=GpuUuid(other),
        nearness=Nearness(nearness) if nearness else None,
        nvlinks=nvlinks[0],
        nvlinks_back=nvlinks[1],
    )


@pytest.mark.parametrize(
    ("nearness", "nvlinks", "points"),
    [
        ("cross-cpu", (0, 0), 10),
        ("same-cpu", (0, 0), 20),
        ("host-bridge", (0, 0), 30),
        ("multi-switch", (0, 0), 40),
        ("single-switch", (0, 0), 50),
        ("same-board", (0, 0), 60),
        ("cross-cpu", (1, 1), 110),
        ("same-cpu", (18, 18), 1820),
        ("same-cpu", (12, 10), 1020),
        ("same-cpu", (4, 0), 0),
        ("same-cpu", (0, 4), 0),
        (None, (0, 0), 0),
        (None, (2, 2), 200),
    ],
)
def test_points(nearness: str | None, nvlinks: tuple[int, int], points: int) -> None:
    """Nearness and each NVLink count, and nothing of a link that only one side knows."""
    assert score(a_link(nvlinks=nvlinks, nearness=nearness)) == points


def test_pairs_of_offered_cards() -> None:
    """Every card has an entry, with the others that are offered and whose link is known."""
    offer = Offer(cards=tuple(a_device(f"GPU-{name}") for name in "bac"))
    links = [
        a_link("GPU-a", "GPU-b", nearness="same-cpu"),
        a_link("GPU-a", "GPU-withheld", nearness="same-cpu"),
    ]
    found = scores(offer, links)
    assert list(found.items()) == [
        ("GPU-b", {"GPU-a": 20}),
        ("GPU-a", {"GPU-b": 20}),
        ("GPU-c", {}),
    ]
