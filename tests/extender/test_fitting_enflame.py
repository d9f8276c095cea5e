"""Enflame: profiles, and whole cards."""

import pytest

from extender.model import NodeUsage
from tests.extender.nodes import (
    container,
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
from tests.extender.vendornodes import NOW_NS, made_up

PROFILES = {"1g.12gb": "11", "3g.36gb": "33", "6g.72gb": "66"}


def drs(*used_cores: int) -> NodeUsage:
    """Return devices of six slices."""
    found = [
        usage(
            device(
                f"n-enflame-drs-{index}",
                index,
                word="Enflame",
                type="Enflame",
                count=6,
                memory_mib=72 * 1024,
                mode="",
                custom={
                    "index": str(index),
                    "minor": f"m{index}",
                    "profiles": PROFILES,
                    "maxSlice": 6,
                },
            ),
            1 if cores else 0,
            72 * 1024 * cores // 100,
            cores,
        )
        for index, cores in enumerate(used_cores)
    ]
    return node(*found)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"drs-gcu": 3}, "36864,50"),
        ({"drs-gcu": 2}, "1/1 ModeNotFit"),
        ({"gcu-memory": 20}, "36864,50"),
        ({"gcu-memory": 12288}, "12288,17"),
        ({"gcu-core": 51}, "73728,100"),
        ({"gcu-memory": 12, "gcu-core": 17}, "12288,17"),
        ({"gcu-memory": 100}, "1/1 ModeNotFit"),
    ],
)
def test_enflames_requests_become_profiles(limits: dict[str, int], expected: str) -> None:
    """By size, or the smallest with the memory, in GB or MiB, and the cores."""
    raw = pod(limited(**{f"enflame.com/{name}": each for name, each in limits.items()}))
    refused = expected.startswith("1/1")
    written = expected if refused else f"n-enflame-drs-0,Enflame,{expected}:;"
    assert text(fit(drs(0), raw), "Enflame") == written


def test_enflames_plugin_is_told_profiles_by_container() -> None:
    """And the first one's device."""
    raw = pod(
        container("b", **{"enflame.com/drs-gcu": 3}),
        container("a", **{"enflame.com/drs-gcu": 1}),
        annotations={"hami.io/gpu-scheduler-policy": "binpack"},
    )
    found = placed(fit(drs(0, 50), raw))
    assert uuids(found, "Enflame") == "n-enflame-drs-1 | n-enflame-drs-0"
    assert found.annotations == {
        "enflame.com/gcu-assigned": "false",
        "enflame.com/gcu-assigned-time": NOW_NS,
        "enflame.com/gcu-assigned-index": "1",
        "enflame.com/gcu-assigned-id": "1",
        "enflame.com/gcu-assigned-minor": "m1",
        "enflame.com/gcu-request-size": "3",
        "assigned-containers": (
            '{"a":{"allocated":false,"request":1,"profileID":"11","profileName":"1g.12gb"},'
            '"b":{"allocated":false,"request":3,"profileID":"33","profileName":"3g.36gb"}}'
        ),
    }
    full = fit(drs(50), pod(limited(**{"enflame.com/drs-gcu": 6})))
    assert text(full) == "1/1 CardInsufficientMemory"


def test_enflames_slices_run_out() -> None:
    """Even where memory is left."""
    on = drs(67)
    on.devices["Enflame"][0].used_mib = 0
    assert text(fit(on, pod(limited(**{"enflame.com/drs-gcu": 3})))) == "1/1 CardInsufficientCore"


def test_enflames_whole_cards_are_exclusive() -> None:
    """One pod each."""
    build = made_up("GCU")
    raw = pod(limited(**{"enflame.com/gcu": 1}))
    capacity = {"enflame.com/gcu": "2"}
    assert text(fit(build(capacity, 1), raw), "GCU") == "n-GCU-0,GCU,100,100:;"
    assert text(fit(build(capacity, 0, 1), raw)) == "2/2 ExclusiveDeviceAllocateConflict"
