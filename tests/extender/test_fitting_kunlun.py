"""Kunlun: wings, and parts of equal size."""

import pytest

from extender.fitting.rules.kunlun import select
from extender.model import NodeUsage
from tests.extender.nodes import (
    fit,
    limited,
    node,
    placed,
    pod,
    text,
    uuids,
)
from tests.extender.vendornodes import MUTEX, devices, made_up


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        (range(8), 8, (0, 1, 2, 3, 4, 5, 6, 7)),
        (range(7), 8, ()),
        (range(8), 4, (0, 1, 2, 3)),
        ([0, 4, 5, 6, 7], 4, (4, 5, 6, 7)),
        ([0, 1, 2, 4], 1, (4,)),
        ([0, 1, 4, 5, 6], 1, (4,)),
        ([0, 1, 4, 5], 1, (0,)),
        ([0, 1, 2, 4, 5], 2, (4, 5)),
        ([1, 5], 2, (1, 5)),
        ([1, 6], 2, ()),
        ([0, 1, 4, 5], 4, (0, 1, 4, 5)),
        ([0, 1, 2, 4, 5], 4, (0, 1, 4, 5)),
        ([0, 1, 2, 4, 5, 6], 4, (0, 1, 4, 5)),
        ([0, 2, 3, 4, 6, 7], 4, (2, 3, 6, 7)),
        ([0, 1, 2, 5, 6, 7], 4, (1, 2, 5, 6)),
        ([], 1, ()),
        ([0, 1], 2, (0, 1)),
        ([0], 2, ()),
        ([3, 9], 2, ()),
    ],
)
def test_kunluns_wings_are_matched(free: list[int], count: int, expected: tuple[int, ...]) -> None:
    """The wing that fits best, else what is linked across, on fewer than eight devices too."""
    assert select(free, count) == expected


XPU = {"kunlunxin.com/xpu": "8"}


def test_kunluns_devices_are_given_whole_and_told_by_index() -> None:
    """However the policy sorts them; a scattered rest is not given."""
    build = made_up("kunlun")
    found = placed(fit(build(XPU, 1), pod(limited(**{"kunlunxin.com/xpu": 4}))))
    assert uuids(found, "kunlun") == "n-kunlun-4 n-kunlun-5 n-kunlun-6 n-kunlun-7"
    assert text(found, "kunlun").startswith("n-kunlun-4,kunlun,98304,100:")
    assert found.annotations == {"BAIDU_COM_DEVICE_IDX": "4,5,6,7"}
    scattered = build(XPU, 0, 1, 2, 4, 5, 7)
    assert text(fit(scattered, pod(limited(**{"kunlunxin.com/xpu": 2})))) == "1/8 NumaNotFit"
    only = {"hami.io/use-xpu-uuid": "n-kunlun-0"}
    raw = pod(limited(**{"kunlunxin.com/xpu": 2}), annotations=only)
    assert text(fit(build(XPU), raw)) == "7/8 CardUuidMismatch"


@pytest.mark.parametrize(
    ("used", "count", "added"),
    [((0, 1, 2), 1, 3000), ((), 4, 2000), ((), 2, 1000), ((4,), 1, 3000)],
)
def test_filling_a_wing_up_is_worth_most(used: tuple[int, ...], count: int, added: int) -> None:
    """Beginning one is worth least."""
    on = made_up("kunlun")(XPU, *used)
    found = placed(fit(on, pod(limited(**{"kunlunxin.com/xpu": count}))))
    plain = 10 * len(used) * (1 / 800 + 1 / 8 + 1 / 8)
    assert found.score == pytest.approx(added + plain)


def vxpus(**sizes: int) -> NodeUsage:
    """Return eight devices, of which some hold one part of a size."""
    eight = devices("XPU", 8, count=4, memory_mib=98304)
    for name, mib in sizes.items():
        used = eight[int(name[1:])]
        used.used_slots, used.used_mib, used.used_cores = 1, mib, mib * 100 // 98304
    return node(*eight)


@pytest.mark.parametrize(
    ("sizes", "annotations", "expected"),
    [
        ({}, {}, "D0,XPU,24576,25:;"),
        ({f"D{each}": 24576 for each in range(8)}, {}, "D0,XPU,24576,25:;"),
        ({f"D{each}": 49152 for each in range(7)}, {}, "D7,XPU,24576,25:;"),
        ({f"D{each}": 49152 for each in range(8)}, {}, "1/8 NumaNotFit"),
        (
            {f"D{each}": 24576 for each in range(8)},
            MUTEX,
            "8/8 ExclusiveDeviceAllocateConflict",
        ),
    ],
)
def test_parts_of_a_kunlun_device_are_equal(
    sizes: dict[str, int], annotations: dict[str, str], expected: str
) -> None:
    """A quarter never joins halves."""
    limits = {"kunlunxin.com/vxpu": 1, "kunlunxin.com/vxpu-memory": 20000}
    raw = pod(limited(**limits), annotations=annotations)
    assert text(fit(vxpus(**sizes), raw), "XPU") == expected
