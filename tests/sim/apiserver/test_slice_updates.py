"""What becomes of a slice between writing and reading: its place, quantities, taints."""

import pytest

from sim.apiserver.json_values import JsonObject
from tests.sim.apiserver.builders import (
    Served,
    device,
    fields,
    refused,
    resource_slice,
    served,
)

TAINT = {"key": "example.com/xid", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"driver": "other.example.com"}, "spec.driver"),
        ({"nodeName": "node-b"}, "spec.nodeName"),
        (
            {"pool": {"name": "other", "generation": 1, "resourceSliceCount": 1}},
            "spec.pool.name",
        ),
    ],
)
def test_a_slice_keeps_its_place(change: JsonObject, field: str) -> None:
    """Driver, node and pool of a slice are fixed."""

    async def scene(at: Served) -> None:
        await at.api.create("resourceslices", resource_slice(device()))
        error = await refused(at.api.update("resourceslices", resource_slice(device(), **change)))
        assert fields(error) == [field]

    served(scene)


def test_quantities_come_back_canonical() -> None:
    """The server stores numbers, so `1024Mi` comes back as `1Gi` and 4000 as `4k`."""

    async def scene(at: Served) -> None:
        capacity = {"a": {"value": "1024Mi"}, "b": {"value": 4000}, "c": {"value": "0.5Gi"}}
        made = await at.api.create("resourceslices", resource_slice(device(capacity=capacity)))
        kept = made["spec"]["devices"][0]["capacity"]
        assert {name: entry["value"] for name, entry in kept.items()} == {
            "a": "1Gi",
            "b": "4k",
            "c": "512Mi",
        }
        bad = resource_slice(device(capacity={"a": {"value": "1 Gi"}}), name="bad")
        assert (await refused(at.api.create("resourceslices", bad))).code == 400

    served(scene)


def test_a_taint_gets_a_time_and_keeps_it() -> None:
    """The server stamps a new taint; a repeated one keeps its time."""

    async def scene(at: Served) -> None:
        made = await at.api.create("resourceslices", resource_slice(device(taints=[TAINT])))
        made["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2020-01-01T00:00:00Z"
        made = await at.api.update("resourceslices", made)
        again = resource_slice(device(taints=[TAINT, {**TAINT, "key": "other"}]))
        kept = (await at.api.update("resourceslices", again))["spec"]["devices"][0]["taints"]
        assert kept[0]["timeAdded"] == "2020-01-01T00:00:00Z"
        assert kept[1]["timeAdded"] > "2020-01-02"

    served(scene)
