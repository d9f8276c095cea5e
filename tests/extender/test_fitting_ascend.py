"""Ascend: templates, soft splits, networks and modules."""

import json

import pytest

from extender.model import DeviceUsage
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
from tests.extender.vendornodes import NOW_S

NPU = "huawei.com/Ascend910B3"
SOFT = {"huawei.com/vnpu-mode": "hami-core"}


def npus(count: int, networks: str = "", word: str = "Ascend910B3") -> list[DeviceUsage]:
    """Return chips, with a network each where *networks* has a digit for each."""
    return [
        usage(
            device(
                f"D{index}",
                index,
                word=word,
                type=word,
                memory_mib=65536,
                cores=20,
                mode="",
                custom={"NetworkID": float(networks[index])} if networks else {},
            )
        )
        for index in range(count)
    ]


def test_ascends_runtime_is_told_the_template() -> None:
    """Of a hard split; whole chips have none."""
    on = node(*npus(2))
    part = placed(fit(on, pod(limited(**{NPU: 1, f"{NPU}-memory": 16384}))))
    assert text(part, "Ascend910B3") == "D1,Ascend910B3,16384,0:;"
    told = '[{"UUID":"D1","temp":"vir05_1c_16g","memory":16384}]'
    assert part.annotations == {"predicate-time": NOW_S, "huawei.com/Ascend910B3": told}
    whole = placed(fit(on, pod(limited(**{NPU: 1, f"{NPU}-memory": 65536}))))
    assert whole.annotations["huawei.com/Ascend910B3"] == '[{"UUID":"D1","memory":65536}]'


@pytest.mark.parametrize(
    ("said", "fits"),
    [({}, False), ({"hami-vnpu-core": "false"}, False), ({"hami-vnpu-core": "true"}, True)],
)
def test_soft_splits_need_nodes_that_do_them(said: dict[str, str], fits: bool) -> None:  # noqa: FBT001
    """Where a chip counts 100 cores and no template."""
    on = node(*npus(2), annotations=said)
    limits = {NPU: 1, f"{NPU}-memory": 1000, f"{NPU}-core": 60}
    found = fit(on, pod(limited(**limits), annotations=SOFT))
    expected = "D1,Ascend910B3,1000,60:;" if fits else "1/2 ModeNotFit"
    assert text(found, "Ascend910B3") == expected
    if fits:
        told = json.loads(placed(found).annotations["huawei.com/Ascend910B3"])
        assert told == [{"UUID": "D1", "memory": 1000, "core": 60}]


@pytest.mark.parametrize(
    ("networks", "expected", "score"),
    [("001011", "D5 D4", 10.0), ("0101", "D3 D1", 10.0), ("01", "D1 D0", 5.0), ("", "D3 D2", 0.0)],
)
def test_chips_come_from_few_networks(networks: str, expected: str, score: float) -> None:
    """The one with most free chips, or the better chip where two are equal."""
    on = node(*npus(len(networks) or 4, networks))
    found = placed(fit(on, pod(limited(**{NPU: 2, f"{NPU}-memory": 65536}))))
    assert (uuids(found, "Ascend910B3"), found.score) == (expected, score)


def test_modules_of_two_chips_are_given_whole() -> None:
    """A chip whose sibling is busy is none."""
    name = "huawei.com/Ascend910C"
    chips = npus(6, word="Ascend910C")
    chips[2].used_slots = 10
    raw = pod(limited(**{name: 4, f"{name}-memory": 65536}))
    assert uuids(fit(node(*chips), raw), "Ascend910C") == "D5 D4 D1 D0"
    chips[0].used_slots = 10
    refusal = "2/4 AllocatedCardsInsufficientRequest, 2/4 CardTimeSlicingExhausted"
    assert text(fit(node(*chips), raw)) == refusal
