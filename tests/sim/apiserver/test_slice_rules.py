"""ResourceSlices that the server refuses, and limits that it allows to be met."""

from typing import Any

import pytest

from sim.apiserver.json_values import JsonObject
from tests.sim.apiserver.builders import (
    Served,
    device,
    fields,
    refused,
    resource_slice,
    served,
    shared,
)


def _devices(count: int, **more: Any) -> JsonObject:
    return resource_slice(*[device(f"gpu-{number}", **more) for number in range(count)])


def _attributes(count: int) -> JsonObject:
    return {f"a{number}": {"int": number} for number in range(count)}


def _counters(name: str = "set") -> list[JsonObject]:
    return [{"name": name, "counters": {"memory": {"value": "40Gi"}}}]


def _consumes(*names: str) -> list[JsonObject]:
    return [{"counterSet": name, "counters": {"memory": {"value": "5Gi"}}} for name in names]


TAINT = {"key": "example.com/xid", "effect": "NoSchedule"}

GOOD = {
    "no devices": resource_slice(),
    "128 devices": _devices(128),
    "64 tainted devices": _devices(64, taints=[TAINT]),
    "32 entries": resource_slice(
        device(attributes=_attributes(31), capacity={"memory": {"value": "1Gi"}})
    ),
    "a pool with slashes": resource_slice(
        pool={"name": "node-a/gpu", "generation": 0, "resourceSliceCount": 1}
    ),
    "a qualified attribute": resource_slice(
        device(attributes={"resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"}})
    ),
    "a full version": resource_slice(device(attributes={"v": {"version": "1.2.3-rc.1+build.7"}})),
    "a text of 64 bytes": resource_slice(device(attributes={"a": {"string": "x" * 64}})),
    "all nodes": resource_slice(nodeName=None, allNodes=True),
    "counters alone": resource_slice(sharedCounters=_counters()),
    "a device that consumes": resource_slice(device(consumesCounters=_consumes("a", "b"))),
    "a sharing policy": resource_slice(
        shared(default="16Gi", validRange={"min": "1Mi", "step": "1Mi"})
    ),
    "a default alone": resource_slice(shared(default="1Gi")),
    "values": resource_slice(shared(default="2Gi", validValues=["1Gi", "2Gi", "16Gi"])),
    "zero as default": resource_slice(
        shared(default="0", validRange={"min": "0", "max": "16Gi", "step": "1Mi"})
    ),
}

DEVICE = "spec.devices[0]"
MEMORY = f"{DEVICE}.capacity[memory].requestPolicy"

BAD: dict[str, tuple[JsonObject, str]] = {
    "129 devices": (_devices(129), "spec.devices"),
    "65 tainted devices": (_devices(65, taints=[TAINT]), "spec.devices"),
    "65 consuming devices": (_devices(65, consumesCounters=_consumes("a")), "spec.devices"),
    "33 entries": (
        resource_slice(device(attributes=_attributes(32), capacity={"memory": {"value": "1Gi"}})),
        DEVICE,
    ),
    "no slices": (
        resource_slice(pool={"name": "p", "generation": 1, "resourceSliceCount": 0}),
        "spec.pool.resourceSliceCount",
    ),
    "a negative generation": (
        resource_slice(pool={"name": "p", "generation": -1, "resourceSliceCount": 1}),
        "spec.pool.generation",
    ),
    "a broken pool name": (
        resource_slice(pool={"name": "p//q", "generation": 1, "resourceSliceCount": 1}),
        "spec.pool.name",
    ),
    "a long driver name": (resource_slice(driver="d" * 64), "spec.driver"),
    "an underscore in the driver name": (resource_slice(driver="a_b"), "spec.driver"),
    "nowhere": (resource_slice(nodeName=None), "spec"),
    "two places": (resource_slice(allNodes=True), "spec"),
    "allNodes false": (resource_slice(allNodes=False), "spec.allNodes"),
    "two terms": (
        resource_slice(
            nodeName=None,
            nodeSelector={
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                    {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
                ]
            },
        ),
        "spec.nodeSelector.nodeSelectorTerms",
    ),
    "devices and counters": (resource_slice(device(), sharedCounters=_counters()), "spec"),
    "nine counter sets": (
        resource_slice(sharedCounters=[entry for n in range(9) for entry in _counters(f"s{n}")]),
        "spec.sharedCounters",
    ),
    "three consumed sets": (
        resource_slice(device(consumesCounters=_consumes("a", "b", "c"))),
        f"{DEVICE}.consumesCounters",
    ),
    "one set twice": (
        resource_slice(device(consumesCounters=_consumes("a", "a"))),
        f"{DEVICE}.consumesCounters[1]",
    ),
    "a device twice": (resource_slice(device(), device()), "spec.devices[1]"),
    "a device with a dot": (resource_slice(device("gpu.0")), f"{DEVICE}.name"),
    "an upper-case device": (resource_slice(device("GPU-0")), f"{DEVICE}.name"),
    "an attribute with a dash": (
        resource_slice(device(attributes={"cuda-version": {"int": 1}})),
        f"{DEVICE}.attributes",
    ),
    "an attribute without value": (
        resource_slice(device(attributes={"a": {}})),
        f"{DEVICE}.attributes[a]",
    ),
    "an attribute with two values": (
        resource_slice(device(attributes={"a": {"int": 1, "string": "x"}})),
        f"{DEVICE}.attributes[a]",
    ),
    "a long text": (
        resource_slice(device(attributes={"a": {"string": "é" * 33}})),
        f"{DEVICE}.attributes[a].string",
    ),
    "a driver version": (
        resource_slice(device(attributes={"a": {"version": "580.65.06"}})),
        f"{DEVICE}.attributes[a].version",
    ),
    "a short version": (
        resource_slice(device(attributes={"a": {"version": "12.4"}})),
        f"{DEVICE}.attributes[a].version",
    ),
    "a list behind a gate": (
        resource_slice(device(attributes={"a": {"ints": [1, 2]}})),
        f"{DEVICE}.attributes[a]",
    ),
    "a taint without effect": (
        resource_slice(device(taints=[{"key": "a", "effect": ""}])),
        f"{DEVICE}.taints[0].effect",
    ),
    "a taint with an unknown effect": (
        resource_slice(device(taints=[{"key": "a", "effect": "PreferNoSchedule"}])),
        f"{DEVICE}.taints[0].effect",
    ),
    "17 taints": (
        resource_slice(device(taints=[{**TAINT, "key": f"k{n}"} for n in range(17)])),
        f"{DEVICE}.taints",
    ),
    "a node of its own": (resource_slice(device(nodeName="node-b")), DEVICE),
    "no node of its own": (
        resource_slice(device(), nodeName=None, perDeviceNodeSelection=True),
        DEVICE,
    ),
    "one list of conditions": (
        resource_slice(device(bindingConditions=["Ready"])),
        f"{DEVICE}.bindingFailureConditions",
    ),
    "a policy without sharing": (
        resource_slice(
            device(capacity={"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}})
        ),
        MEMORY,
    ),
    "values and a range": (
        resource_slice(shared(default="1Gi", validValues=["1Gi"], validRange={"min": "1Gi"})),
        MEMORY,
    ),
    "a range without default": (
        resource_slice(shared(validRange={"min": "1Gi"})),
        f"{MEMORY}.default",
    ),
    "a range without min": (
        resource_slice(shared(default="1Gi", validRange={"step": "1Gi"})),
        f"{MEMORY}.validRange.min",
    ),
    "a default below min": (
        resource_slice(shared(default="0", validRange={"min": "1Gi"})),
        f"{MEMORY}.validRange.default",
    ),
    "a default above max": (
        resource_slice(shared(default="3Gi", validRange={"min": "1Gi", "max": "2Gi"})),
        f"{MEMORY}.validRange.default",
    ),
    "a max above the value": (
        resource_slice(shared(default="1Gi", validRange={"min": "1Gi", "max": "17Gi"})),
        f"{MEMORY}.validRange.max",
    ),
    "a default off the grid": (
        resource_slice(shared(default="15843721216", validRange={"min": "1Mi", "step": "1Mi"})),
        f"{MEMORY}.validRange.step",
    ),
    "a step of zero": (
        resource_slice(shared(default="1Gi", validRange={"min": "1Gi", "step": "0"})),
        f"{MEMORY}.validRange.step",
    ),
    "a step beyond the value": (
        resource_slice(shared(default="1Gi", validRange={"min": "1Gi", "step": "16Gi"})),
        f"{MEMORY}.validRange.step",
    ),
    "values out of order": (
        resource_slice(shared(default="1Gi", validValues=["2Gi", "1Gi"])),
        f"{MEMORY}.validValues[1]",
    ),
    "a default that is no value": (
        resource_slice(shared(default="3Gi", validValues=["1Gi", "2Gi"])),
        f"{MEMORY}.validValues",
    ),
    "11 values": (
        resource_slice(shared(default="1Gi", validValues=[f"{n}Gi" for n in range(1, 12)])),
        f"{MEMORY}.validValues",
    ),
    "a value above the capacity": (
        resource_slice(shared(default="1Gi", validValues=["1Gi", "17Gi"])),
        f"{MEMORY}.validValues[1]",
    ),
}


@pytest.mark.parametrize("what", GOOD)
def test_slices_that_are_accepted(what: str) -> None:
    """Each limit may be met."""

    async def scene(at: Served) -> None:
        assert await at.api.create("resourceslices", GOOD[what])

    served(scene)


@pytest.mark.parametrize("what", BAD)
def test_slices_that_are_refused(what: str) -> None:
    """Each broken rule is one cause that names the field."""

    async def scene(at: Served) -> None:
        wanted, field = BAD[what]
        error = await refused(at.api.create("resourceslices", wanted))
        assert (error.code, error.reason) == (422, "Invalid")
        blamed = set(fields(error))
        if field == MEMORY:
            blamed = {path for path in blamed if path.startswith(MEMORY)} or blamed
        assert blamed == {field}

    served(scene)
