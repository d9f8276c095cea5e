"""How full a GPU is, and when that is said."""

import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.devices import SharingPolicy, build_devices
from dra.filllevel import FillLevels, held_by_device, level_of, thousandths, without_level
from dra.record import PreparedClaim
from dra.situation import SituationSource
from kube.objects import JsonObject
from tests.dra.builders import a_gpu, a_held, a_mig_gpu, a_record, an_inventory
from tests.dra.publishing import cluster, publishing, settled
from tests.patience import eventually

GPU = a_gpu()
OFFER = build_devices(an_inventory(GPU, a_gpu(1)), sharing_kept=True, policy=SharingPolicy())
DEVICE, OTHER = OFFER.devices
NAME = DEVICE["name"]


def part_held(**held: Any) -> int:
    """Return the thousandths of a GPU of 16000 MiB and 10 shares of which one claim holds this."""
    values: dict[str, Any] = {"memory_mib": 0, "cores_percent": 0, "shares": 0, "share_id": "s"}
    claim = a_record(1, a_held(GPU, **values | held))
    return thousandths(DEVICE, held_by_device([claim]).get(NAME))


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({"memory_mib": 8000}, 500),
        ({"memory_mib": 1}, 1),
        ({"memory_mib": 16000}, 1000),
        ({"cores_percent": 30}, 300),
        ({"shares": 10}, 1000),
        ({"memory_mib": 4000, "cores_percent": 70, "shares": 1}, 700),
        ({"dedicated": True}, 1000),
        ({"memory_mib": 8000, "admin": True}, 0),
    ],
)
def test_the_scarcest_counts(held: dict[str, Any], expected: int) -> None:
    """Memory, cores or shares, whichever is used most; administrative access uses nothing."""
    assert part_held(**held) == expected


def test_claims_are_summed() -> None:
    """All claims on a GPU count, and only those on it."""
    mine = [a_record(number, a_held(GPU, memory_mib=2000, shares=1)) for number in range(3)]
    theirs = a_record(9, a_held(a_gpu(1), memory_mib=16000))
    assert thousandths(DEVICE, held_by_device([*mine, theirs]).get(NAME)) == 375


def test_a_device_of_unknown_size_is_full() -> None:
    """What cannot be computed attracts nobody."""
    held = held_by_device([a_record(1, a_held(GPU))])[NAME]
    assert thousandths({"name": NAME}, held) == 1000


@pytest.mark.parametrize(
    ("thousandths_held", "level"),
    [(0, 0), (1, 1), (499, 1), (500, 2), (899, 2), (900, 3), (1000, 3)],
)
def test_levels(thousandths_held: int, level: int) -> None:
    """Free, less than half, half or more, nine tenths or more."""
    assert level_of(thousandths_held, None) == level
    assert level_of(thousandths_held, 0) == level


@pytest.mark.parametrize(
    ("before", "thousandths_held", "level"),
    [(3, 800, 3), (3, 799, 2), (2, 400, 2), (2, 399, 1), (3, 399, 1), (1, 1, 1), (3, 0, 0)],
)
def test_a_level_is_left_by_a_clear_step(before: int, thousandths_held: int, level: int) -> None:
    """It takes a tenth less than it took to reach it; a free GPU is free at once."""
    assert level_of(thousandths_held, before) == level


@given(amount=st.integers(1, 950), before=st.integers(0, 3), change=st.integers(-50, 50))
def test_levels_do_not_flap(amount: int, before: int, change: int) -> None:
    """What goes up and down by a twentieth changes the level once, and not to and fro."""
    levels = [level_of(amount, before)]
    for filled_now in (max(1, amount + change), amount) * 2:
        levels.append(level_of(filled_now, levels[-1]))
    assert sum(one != next_one for one, next_one in pairwise(levels)) <= 1


class Scene:
    """Fill levels on a clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.claims: dict[str, PreparedClaim] = {}
        self.fill = FillLevels(lambda: self.claims, now_s=lambda: self.now_s)
        self.server: dict[str, JsonObject] = {}
        self.writes: list[float] = []

    def hold(self, memory_mib: int, number: int = 1) -> bool:
        """Have a claim hold so much, none for 0; return whether the publisher is woken."""
        self.claims.pop(str(number), None)
        if memory_mib:
            self.claims[str(number)] = a_record(number, a_held(GPU, memory_mib=memory_mib))
        return self.fill.claims_changed()

    def turn(self, *devices: JsonObject, fails: bool = False) -> int:
        """Publish, and return the level of the first device."""
        wanted = {each["name"]: each for each in self.fill.apply(devices or (DEVICE,), self.server)}
        if not fails:
            if wanted != self.server:
                self.writes.append(self.now_s)
            self.server = wanted
            self.fill.published()
        level: int = wanted[NAME]["attributes"]["fillLevel"]["int"]
        return level


def test_at_most_one_change_in_30_s() -> None:
    """The first change is said after a moment, the next ones together when 30 s are over."""
    scene = Scene()
    assert scene.turn() == 0
    scene.now_s += 100
    scene.turn()
    assert scene.fill.wait_s() is None
    assert scene.hold(9000)
    assert (scene.turn(), scene.fill.wait_s()) == (0, 1.0)
    assert not scene.hold(2000, 2)
    scene.now_s += 1
    assert (scene.turn(), scene.fill.wait_s()) == (2, None)
    for memory_mib in (0, 9000, 0, 9000, 0):
        scene.hold(memory_mib)
        scene.now_s += 5
        assert scene.turn() == 2
    assert scene.fill.wait_s() == 5
    scene.now_s += 5
    assert (scene.turn(), scene.fill.wait_s()) == (1, None)


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 20), st.integers(0, 16000), st.integers(1, 3)), max_size=40
    )
)
def test_any_churn_stays_within_the_rate(steps: list[tuple[int, int, int]]) -> None:
    """Whatever claims come and go, two writes are 30 s apart, and at the end it is right."""
    scene = Scene()
    scene.turn()
    for pause_s, memory_mib, number in steps:
        scene.hold(memory_mib, number)
        scene.now_s += pause_s
        scene.turn()
    scene.now_s += 31
    scene.turn()
    assert all(later - earlier >= 30 for earlier, later in pairwise(scene.writes))
    held = thousandths(DEVICE, held_by_device(scene.claims.values()).get(NAME))
    level = scene.server[NAME]["attributes"]["fillLevel"]["int"]
    assert level_of(held, level) == level
    assert scene.fill.wait_s() is None


def test_a_restarted_agent_goes_on() -> None:
    """It leaves what is published for 30 s and looks then, whether claims changed or not."""
    first, second = Scene(), Scene()
    first.hold(9000)
    assert first.turn() == 2
    second.server = first.server
    assert (second.turn(), second.fill.wait_s()) == (2, 30)
    second.now_s += 30
    assert (second.turn(), second.fill.wait_s()) == (0, None)


def test_an_agent_that_is_not_called_any_more_changes_nothing() -> None:
    """The old one of two agents has old claims, and leaves the level to the new one."""
    scene = Scene()
    scene.turn()
    scene.now_s += 30
    scene.turn()
    level = {"attributes": DEVICE["attributes"] | {"fillLevel": {"int": 3}}}
    scene.server = {NAME: DEVICE | level}
    scene.now_s += 1000
    assert scene.turn() == 3


def test_a_failed_write_is_tried_again() -> None:
    """What did not reach the server is due as it was."""
    scene = Scene()
    scene.turn()
    scene.now_s += 100
    scene.hold(9000)
    scene.now_s += 1
    assert scene.turn(fails=True) == 2
    assert scene.fill.wait_s() == 1.0
    assert scene.turn() == 2
    assert scene.fill.wait_s() is None


def test_a_change_during_a_write_is_not_lost() -> None:
    """It is looked at with the next one."""
    scene = Scene()
    scene.turn()
    scene.now_s += 100
    scene.hold(9000)
    scene.now_s += 1
    scene.fill.apply((DEVICE,), scene.server)
    assert not scene.hold(0)
    scene.fill.published()
    assert scene.fill.wait_s() == 30


def test_a_new_device_comes_with_its_level() -> None:
    """There is nothing published yet to stay with."""
    scene = Scene()
    scene.hold(9000)
    assert scene.turn() == 2
    assert scene.turn(DEVICE, OTHER) == 2
    assert scene.server[OTHER["name"]]["attributes"]["fillLevel"] == {"int": 0}


@pytest.mark.parametrize("odd", [None, {"int": 9}, {"int": -1}, {"string": "2"}, "2", {}])
def test_odd_published_levels(odd: Any) -> None:
    """What is no level is replaced."""
    scene = Scene()
    scene.server = {NAME: DEVICE | {"attributes": {"fillLevel": odd}}}
    assert scene.turn() == 0


def test_only_shared_devices_have_a_level() -> None:
    """MIG devices and GPUs that are given whole are free or not, as the scheduler knows."""
    found = build_devices(an_inventory(a_mig_gpu()), sharing_kept=True, policy=SharingPolicy())
    whole = build_devices(an_inventory(GPU), sharing_kept=False, policy=SharingPolicy())
    devices = (*found.devices, *whole.devices)
    assert Scene().fill.apply(devices, {}) == devices


def test_without_level() -> None:
    """A device that is published on without being built anew loses it."""
    levelled = DEVICE | {"attributes": DEVICE["attributes"] | {"fillLevel": {"int": 1}}}
    assert without_level(levelled) == DEVICE
    assert without_level(DEVICE) is DEVICE


def levels_of(where: Any) -> list[int | None]:
    """Return the published levels in order."""
    return [
        device["attributes"].get("fillLevel", {}).get("int")
        for item in where.slices()
        for device in item["spec"]["devices"]
    ]


def test_published() -> None:
    """A publisher writes levels once for a burst, and other changes at once with the old level."""
    claims: dict[str, PreparedClaim] = {}
    lock = threading.Lock()

    def copied() -> dict[str, PreparedClaim]:
        with lock:
            return dict(claims)

    inventory = an_inventory(GPU, a_gpu(1))
    situation = SituationSource(claims=copied)
    fill = FillLevels(copied, interval_s=0.5, settle_s=0.2)
    with (
        cluster() as where,
        publishing(where, found=None, situation=situation, fill=fill) as publisher,
    ):
        publisher.set_inventory(inventory)
        settled(publisher)
        assert levels_of(where) == [0, 0]
        for number in range(5):
            with lock:
                claims[str(number)] = a_record(number, a_held(GPU, memory_mib=2000))
            publisher.claims_changed()
        eventually(lambda: levels_of(where) == [2, 0])
        assert where.verbs() == ["create", "update"]
        fill_later = FillLevels(copied, interval_s=1000)
    with (
        cluster() as where,
        publishing(where, situation=situation, fill=fill_later) as publisher,
    ):
        settled(publisher)
        assert levels_of(where) == [2, 0]
        with lock:
            claims.clear()
        publisher.claims_changed()
        smaller = replace(inventory, gpus=inventory.gpus[:1])
        publisher.set_inventory(smaller)
        eventually(lambda: levels_of(where) == [2])
        assert where.verbs() == ["create", "update"]


def test_switched_off() -> None:
    """Without the setting there is no such attribute, also where there was one before."""
    with cluster() as where:
        inventory = an_inventory(GPU)
        with publishing(where, found=inventory, fill=FillLevels(dict)) as publisher:
            settled(publisher)
            assert levels_of(where) == [0]
        with publishing(where, found=inventory) as publisher:
            settled(publisher)
            eventually(lambda: levels_of(where) == [None])
