"""What older servers keep, and what happens when a control plane is upgraded."""

import pytest

from sim.apiserver import versions
from sim.apiserver.json_values import JsonObject
from tests.sim.apiserver.builders import (
    Served,
    allocation,
    claim,
    device,
    fields,
    refused,
    resource_slice,
    served,
    shared,
)

SHARE = "9b2e8b2c-0f0f-4c2a-9d39-0a4c7f2a1b11"


def _sharing() -> JsonObject:
    gpu = shared(default="16Gi", validRange={"min": "1Mi", "step": "1Mi"})
    return resource_slice({**gpu, "taints": [{"key": "a/b", "effect": "NoSchedule"}]})


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_old_servers_drop_sharing_in_silence(version: str) -> None:
    """Policies, flags and taints vanish from slices, the capacity from claims, without a word."""

    async def scene(at: Served) -> None:
        status, made = await at.wire.post("/apis/resource.k8s.io/v1/resourceslices", _sharing())
        assert status == 201
        assert "Warning" not in at.wire.headers
        gpu = made["spec"]["devices"][0]
        assert not {"allowMultipleAllocations", "taints"} & gpu.keys()
        assert gpu["capacity"] == {"memory": {"value": "16Gi"}}
        made = await at.api.create(
            "resourceclaims", claim(capacity={"memory": "3000Mi"}), "default"
        )
        assert made["spec"]["devices"]["requests"][0]["exactly"] == {
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 1,
        }
        made["status"] = {
            "allocation": allocation(shareID=SHARE, consumedCapacity={"memory": "1Gi"})
        }
        made = await at.api.update("resourceclaims", made, subresource="status")
        assert made["status"]["allocation"] == allocation()
        wanted = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
        assert (await at.api.create("deviceclasses", wanted))["spec"] == {}

    served(scene, version=version)


@pytest.mark.parametrize("version", ["1.36", "1.37"])
def test_new_servers_keep_sharing(version: str) -> None:
    """Slices and claims come back as they were sent."""

    async def scene(at: Served) -> None:
        made = await at.api.create("resourceslices", _sharing())
        gpu = made["spec"]["devices"][0]
        assert gpu["allowMultipleAllocations"]
        assert gpu["capacity"] == _sharing()["spec"]["devices"][0]["capacity"]
        assert gpu["taints"][0]["key"] == "a/b"
        made = await at.api.create("resourceclaims", claim(capacity={"memory": "1Gi"}), "default")
        exactly = made["spec"]["devices"]["requests"][0]["exactly"]
        assert exactly["capacity"] == {"requests": {"memory": "1Gi"}}

    served(scene, version=version)


def test_distinct_attributes_need_their_gate() -> None:
    """Where `distinctAttribute` is dropped the constraint has nothing left and is refused."""

    async def scene(at: Served) -> None:
        wanted = claim()
        constraint = {"distinctAttribute": "gpu.example.com/uuid"}
        wanted["spec"]["devices"]["constraints"] = [constraint]
        error = await refused(at.api.create("resourceclaims", wanted, "default"))
        assert fields(error) == ["spec.devices.constraints[0].matchAttribute"]
        at.server.set_version("1.36")
        made = await at.api.create("resourceclaims", wanted, "default")
        assert made["spec"]["devices"]["constraints"] == [constraint]

    served(scene, version="1.35")


def test_a_feature_in_use_survives_a_downgrade() -> None:
    """An update keeps fields of a disabled feature when the stored object has them."""

    async def scene(at: Served) -> None:
        made = await at.api.create("resourceslices", _sharing())
        at.server.set_version("1.34")
        made["metadata"]["labels"] = {"a": "b"}
        made = await at.api.update("resourceslices", made)
        assert made["spec"]["devices"][0]["allowMultipleAllocations"]
        await at.api.delete("resourceslices", "slice")
        made = await at.api.create("resourceslices", _sharing())
        assert "allowMultipleAllocations" not in made["spec"]["devices"][0]
        at.server.set_version("1.36.3")
        made = await at.api.update("resourceslices", _sharing())
        assert made["spec"]["devices"][0]["allowMultipleAllocations"]
        assert (await at.wire.get("/version"))[1]["gitVersion"] == "v1.36.3"

    served(scene)


def test_gates_can_be_switched_on() -> None:
    """An old server with the alpha gate keeps what the gate stands for, and no more."""

    async def scene(at: Served) -> None:
        at.server.set_version("1.34", gates=frozenset({versions.CONSUMABLE_CAPACITY}))
        gpu = (await at.api.create("resourceslices", _sharing()))["spec"]["devices"][0]
        assert gpu["allowMultipleAllocations"]
        assert "taints" not in gpu

    served(scene)


def test_counters_moved_in_1_35() -> None:
    """Counters stand beside their devices in 1.34 and in slices of their own since."""
    counters = [{"name": "set", "counters": {"memory": {"value": "40Gi"}}}]

    async def scene(at: Served) -> None:
        gates = frozenset({versions.PARTITIONABLE_DEVICES})
        both = resource_slice(device(), sharedCounters=counters)
        at.server.set_version("1.34", gates=gates)
        assert (await at.api.create("resourceslices", both))["spec"]["sharedCounters"] == counters
        at.server.set_version("1.35", gates=gates)
        both["metadata"]["name"] = "second"
        assert fields(await refused(at.api.create("resourceslices", both))) == ["spec"]

    served(scene)


def test_fields_of_a_newer_release_are_unknown_to_an_older_one() -> None:
    """A field that 1.37 added is dropped by 1.36, with a warning."""

    async def scene(at: Served) -> None:
        wanted = resource_slice(device(), skipNodeOperations=["*"])
        _, made = await at.wire.post("/apis/resource.k8s.io/v1/resourceslices", wanted)
        assert "skipNodeOperations" not in made["spec"]
        assert "spec.skipNodeOperations" in at.wire.headers["Warning"]

    served(scene, version="1.36")


@pytest.mark.parametrize("text", ["1.33", "2.0", "1", "x"])
def test_other_versions_are_not_simulated(text: str) -> None:
    """A version without profile is an error, not a guess."""
    with pytest.raises(ValueError, match="not simulated"):
        versions.version(text)
