"""Statuses of claims: allocations, reservations and what drivers say of devices."""

from typing import Any

import pytest

from sim.apiserver.json_values import JsonObject, copy_json
from tests.sim.apiserver.builders import (
    DRIVER,
    Served,
    allocation,
    claim,
    consumer,
    fields,
    refused,
    served,
)

SHARE = "9b2e8b2c-0f0f-4c2a-9d39-0a4c7f2a1b11"


async def _allocated(at: Served, **result: Any) -> JsonObject:
    made = await at.api.create("resourceclaims", claim(), "default")
    made["status"] = {"allocation": allocation(**result), "reservedFor": [consumer()]}
    return await at.api.update("resourceclaims", made, subresource="status")


def test_an_allocation_is_fixed_until_it_is_removed() -> None:
    """It is set once, may be repeated and removed, never changed."""

    async def scene(at: Served) -> None:
        made = await _allocated(at, consumedCapacity={"memory": "3000Mi"}, shareID=SHARE)
        other = copy_json(made)
        other["status"]["allocation"]["devices"]["results"][0]["device"] = "gpu-1"
        error = await refused(at.api.update("resourceclaims", other, subresource="status"))
        assert fields(error) == ["status.allocation"]
        made["status"]["reservedFor"].append(consumer("uid-2", "pod-2"))
        made = await at.api.update("resourceclaims", made, subresource="status")
        made["status"] = {}
        made = await at.api.update("resourceclaims", made, subresource="status")
        assert not made["status"]

    served(scene)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"reservedFor": [consumer()]}, "status.reservedFor"),
        (
            {"allocation": allocation(), "reservedFor": [consumer(), consumer()]},
            "status.reservedFor[1]",
        ),
        (
            {"allocation": allocation(), "reservedFor": [consumer(str(n)) for n in range(257)]},
            "status.reservedFor",
        ),
        (
            {"allocation": allocation(request="other")},
            "status.allocation.devices.results[0].request",
        ),
        (
            {"allocation": allocation(shareID=SHARE.upper())},
            "status.allocation.devices.results[0].shareID",
        ),
        (
            {
                "allocation": allocation(),
                "devices": [{"driver": DRIVER, "pool": "node-a", "device": "gpu-1"}],
            },
            "status.devices[0]",
        ),
        (
            {
                "allocation": allocation(shareID=SHARE),
                "devices": [{"driver": DRIVER, "pool": "node-a", "device": "gpu-0"}],
            },
            "status.devices[0]",
        ),
        (
            {
                "allocation": allocation(),
                "devices": [
                    {
                        "driver": DRIVER,
                        "pool": "node-a",
                        "device": "gpu-0",
                        "data": {"x": "y" * 11 * 1024},
                    }
                ],
            },
            "status.devices[0].data",
        ),
    ],
)
def test_statuses_that_are_refused(status: JsonObject, field: str) -> None:
    """Reservations need an allocation, device status needs a result of it."""

    async def scene(at: Served) -> None:
        made = await at.api.create("resourceclaims", claim(), "default")
        made["status"] = status
        error = await refused(at.api.update("resourceclaims", made, subresource="status"))
        assert (error.code, fields(error)) == (422, [field])

    served(scene)


def test_device_status_goes_with_its_device() -> None:
    """Entries of devices that are deallocated are dropped by the server."""

    async def scene(at: Served) -> None:
        made = await _allocated(at)
        entry = {"driver": DRIVER, "pool": "node-a", "device": "gpu-0"}
        made["status"]["devices"] = [entry]
        made = await at.api.update("resourceclaims", made, subresource="status")
        assert made["status"]["devices"] == [entry]
        del made["status"]["allocation"], made["status"]["reservedFor"]
        made = await at.api.update("resourceclaims", made, subresource="status")
        assert not made["status"]

    served(scene)


def test_a_claim_in_deletion_gets_no_new_consumers() -> None:
    """Reservations may go from a claim in deletion, not come."""

    async def scene(at: Served) -> None:
        made = await _allocated(at)
        made["metadata"]["finalizers"] = ["example.com/hold"]
        await at.api.update("resourceclaims", made)
        await at.api.delete("resourceclaims", "claim", "default")
        made = await at.api.get("resourceclaims", "claim", "default")
        made["status"]["reservedFor"].append(consumer("uid-2"))
        error = await refused(at.api.update("resourceclaims", made, subresource="status"))
        assert fields(error) == ["status.reservedFor"]
        del made["status"]["reservedFor"]
        assert await at.api.update("resourceclaims", made, subresource="status")

    served(scene)
