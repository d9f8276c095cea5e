"""Each rule about devices is told by code and values, with a change that helps."""

from typing import Any, NamedTuple

import pytest

from tests.sim.explain.world import (
    SHARED,
    Json,
    asking,
    change_codes,
    claim,
    device_class,
    device_codes,
    explained,
    gpu,
    holding,
    node,
    pod,
    published,
    selecting,
    whole,
)

TAINT = {"key": "example.com/sick", "value": "yes", "effect": "NoSchedule"}
MODEL_H100 = 'device.attributes["gpu.example.com"].model == "h100"'
COUNTERS = [{"name": "slots", "counters": {"memory": {"value": "40Gi"}}}]


class Situation(NamedTuple):
    """A cluster in which the pod waits, with what is to be said of the device."""

    items: list[Json]
    code: str
    value: str = ""
    limit: str = ""
    holders: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def _one(*devices: Json, **spec: Any) -> list[Json]:
    return [node("a"), published("a", *devices, **spec), pod()]


def _partition(name: str) -> Json:
    counters = {"memory": {"value": "20Gi"}}
    return whole(name, consumesCounters=[{"counterSet": "slots", "counters": counters}])


SITUATIONS = {
    "memory is taken": Situation(
        [
            *_one(gpu("g0")),
            holding("other", "a", "g0", capacity={"memory": "30Gi", "shares": "1"}, pods=("x",)),
            claim(asking(capacity={"memory": "20Gi"})),
        ],
        "MemoryInsufficient",
        "asked 20Gi",
        "free 10Gi of 40Gi",
        ("default/other 30Gi",),
        ("LowerCapacity", "WaitForClaim"),
    ),
    "memory is rounded up": Situation(
        [
            *_one(gpu("g0")),
            holding("other", "a", "g0", capacity={"memory": "40959Mi", "shares": "1"}),
            claim(asking(capacity={"memory": "1048577"})),
        ],
        "MemoryInsufficient",
        "asked 1048577, which takes 2Mi",
        "free 1Mi of 40Gi",
        ("default/other 40959Mi",),
        ("DeleteUnusedClaim", "LowerCapacity"),
    ),
    "all memory is asked by saying nothing": Situation(
        [
            *_one(gpu("g0")),
            holding("other", "a", "g0", capacity={"memory": "30Gi", "shares": "1"}, pods=("x",)),
            claim(asking()),
        ],
        "MemoryInsufficient",
        "not asked for, which takes 40Gi",
        "free 10Gi of 40Gi",
        ("default/other 30Gi",),
        ("LowerCapacity", "WaitForClaim"),
    ),
    "no share is left": Situation(
        [
            *_one(gpu("g0", shares=1)),
            holding("other", "a", "g0", capacity={"memory": "1Gi", "shares": "1"}, pods=("x",)),
            claim(asking(capacity={"memory": "1Gi"})),
        ],
        "SharesInsufficient",
        "not asked for, which takes 1",
        "free 0 of 1",
        ("default/other 1",),
        ("WaitForClaim",),
    ),
    "memory and cores are taken": Situation(
        [
            *_one(gpu("g0")),
            holding(
                "other",
                "a",
                "g0",
                capacity={"memory": "30Gi", "cores": "90", "shares": "1"},
                pods=("x", "y"),
            ),
            claim(asking(capacity={"memory": "20Gi", "cores": "30"})),
        ],
        "MemoryInsufficient",
        "asked 20Gi",
        "free 10Gi of 40Gi",
        ("default/other 30Gi",),
        ("WaitForClaim", "LowerCapacities"),
    ),
    "an amount is not allowed": Situation(
        [*_one(gpu("g0")), claim(asking(capacity={"memory": "1Gi", "shares": "2"}))],
        "SharesNotAllowed",
        "asked 2",
        "allowed are 1",
        changes=("LowerCapacity",),
    ),
    "a capacity has another name": Situation(
        [*_one(gpu("g0")), claim(asking(capacity={"example.com/memory": "1Gi"}))],
        "CapacityNameUnknown",
        "asked example.com/memory 1Gi",
        "known are memory, cores, shares",
        changes=("RenameCapacity",),
    ),
    "a capacity is unknown": Situation(
        [*_one(gpu("g0")), claim(asking(capacity={"speed": "1Gi"}))],
        "CapacityNameUnknown",
        "asked speed 1Gi",
        "known are memory, cores, shares",
        changes=("DropCapacity",),
    ),
    "the device is in use": Situation(
        [*_one(whole("g0")), holding("other", "a", "g0", pods=("x",)), claim()],
        "DeviceInUse",
        limit="another claim has all of it",
        holders=("default/other ",),
        changes=("WaitForClaim",),
    ),
    "the class leaves the device out": Situation(
        [
            *_one(gpu("g0")),
            device_class("h100", f"{SHARED} && {MODEL_H100}"),
            device_class("share"),
            claim(asking(of="h100")),
        ],
        "SelectorFalse",
        f"{SHARED} && {MODEL_H100}",
        "model is a10, driver is gpu.example.com",
        changes=("OtherClass",),
    ),
    "the request leaves the device out": Situation(
        [*_one(gpu("g0")), claim(asking(selectors=selecting("true", MODEL_H100)))],
        "SelectorFalse",
        MODEL_H100,
        "model is a10",
        changes=("DropSelector",),
    ),
    "a taint is not tolerated": Situation(
        [*_one(gpu("g0", taints=[TAINT])), claim()],
        "TaintNotTolerated",
        "example.com/sick=yes:NoSchedule",
        changes=("TolerateDeviceTaint",),
    ),
    "too few devices": Situation(
        [*_one(gpu("g0"), gpu("g1", taints=[TAINT])), claim(asking(count=2))],
        "CountNotReached",
        "asked 2 devices",
        "1 found",
        changes=("LowerCount", "TolerateDeviceTaint"),
    ),
    "all devices and one in use": Situation(
        [
            *_one(whole("g0"), whole("g1")),
            holding("other", "a", "g0", pods=("x",)),
            claim(asking(allocationMode="All")),
        ],
        "DeviceInUse",
        limit="another claim has all of it",
        holders=("default/other ",),
        changes=("LowerCount", "WaitForClaim"),
    ),
    "all devices and none is there": Situation(
        [
            *_one(whole("g0")),
            claim(asking(allocationMode="All", selectors=selecting(MODEL_H100))),
        ],
        "NoDeviceMatches",
        changes=("DropSelector",),
    ),
    "attributes do not match": Situation(
        [
            *_one(gpu("g0"), gpu("g1", attributes={"numa": {"int": 1}})),
            claim(asking(count=2), constraints=[{"matchAttribute": "gpu.example.com/numa"}]),
        ],
        "ConstraintRefused",
        "gpu.example.com/numa is 1",
        "the others have 0",
        changes=("DropConstraint", "LowerCount"),
    ),
    "counters are used up": Situation(
        [
            node("a"),
            published("a", sharedCounters=COUNTERS, pool={"resourceSliceCount": 2}),
            published(
                "a",
                _partition("p0"),
                _partition("p1"),
                _partition("p2"),
                pool={"resourceSliceCount": 2},
            )
            | {"metadata": {"name": "a-devices"}},
            pod(),
            holding("one", "a", "p0", pods=("x",)),
            holding("two", "a", "p1", pods=("y",)),
            claim(asking(selectors=selecting("true"))),
        ],
        "CounterInsufficient",
        "asked 20Gi of slots/memory",
        "free 0",
        ("default/one ", "default/two "),
        ("WaitForClaim",),
    ),
    "a pool is being updated": Situation(
        [*_one(gpu("g0"), pool={"resourceSliceCount": 2}), claim()],
        "PoolIncomplete",
        limit="its slices are currently being updated",
    ),
    "no device is published": Situation([node("a"), pod(), claim()], "NoDevicePublished"),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_rule_is_told_with_its_values(name: str) -> None:
    """The code, the values, the holders and the smallest changes are those of the situation."""
    situation = SITUATIONS[name]
    said = explained(*situation.items)
    assert said.verdict == "pending"
    reasons = [it for one in said.nodes for it in one.devices if it.refusal.code == situation.code]
    assert reasons, device_codes(said)
    told = reasons[0]
    assert told.refusal.value == situation.value
    assert told.refusal.limit == situation.limit
    assert tuple(f"{it.claim} {it.amount}" for it in told.holders) == situation.holders
    assert tuple(change_codes(said)) == situation.changes
