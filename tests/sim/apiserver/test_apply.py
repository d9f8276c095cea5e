"""Server-side apply: creation, merging, removal, conflicts."""

from typing import Any

from sim.apiserver.json_values import JsonObject
from tests.sim.apiserver.builders import (
    CLAIMS,
    DRIVER,
    PODS,
    Served,
    allocation,
    claim,
    pod,
    served,
)

MAPS = "/api/v1/namespaces/default/configmaps"
APPLY = "application/apply-patch+yaml"


def _config(**data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": data}


async def _apply(
    at: Served, body: JsonObject, manager: str = "one", path: str = f"{MAPS}/map", query: str = ""
) -> tuple[int, JsonObject]:
    return await at.wire.patch(f"{path}?fieldManager={manager}{query}", body, APPLY)


def test_apply_creates_and_merges() -> None:
    """The first apply creates; the next one changes what it names."""

    async def scene(at: Served) -> None:
        status, made = await _apply(at, _config(a="1"))
        assert (status, made["data"]) == (201, {"a": "1"})
        entry = made["metadata"]["managedFields"][0]
        assert (entry["manager"], entry["operation"]) == ("one", "Apply")
        assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}
        assert await _apply(at, _config(a="1")) == (200, made)
        status, answer = await _apply(at, _config(a="2"))
        assert (status, answer["data"]) == (200, {"a": "2"})
        assert answer["metadata"]["uid"] == made["metadata"]["uid"]

    served(scene)


def test_apply_removes_what_is_no_longer_said() -> None:
    """A field that its manager leaves out goes, unless somebody else applied it too."""

    async def scene(at: Served) -> None:
        await _apply(at, _config(a="1", b="1"))
        await _apply(at, _config(b="1", c="1"), manager="two")
        _, answer = await _apply(at, _config())
        assert answer["data"] == {"b": "1", "c": "1"}

    served(scene)


def test_apply_conflicts_over_a_field_of_another() -> None:
    """A value that another manager applied is a 409 with the field, unless forced."""

    async def scene(at: Served) -> None:
        await _apply(at, _config(a="1"))
        status, answer = await _apply(at, _config(a="2"), manager="two")
        assert (status, answer["reason"]) == (409, "Conflict")
        cause = answer["details"]["causes"][0]
        assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".data.a")
        status, answer = await _apply(at, _config(a="2"), manager="two", query="&force=true")
        assert (status, answer["data"]) == (200, {"a": "2"})

    served(scene)


def test_apply_needs_a_manager() -> None:
    """Without `fieldManager` an apply is a 422."""

    async def scene(at: Served) -> None:
        status, _ = await at.wire.patch(f"{MAPS}/map", _config(), APPLY)
        assert status == 422

    served(scene)


def test_drivers_apply_their_own_device_status() -> None:
    """Entries of `status.devices` merge by driver, pool, device and share."""

    async def scene(at: Served) -> None:
        await at.wire.post(CLAIMS, claim())
        other = "other.example.com"
        results = [
            *allocation()["devices"]["results"],
            {"request": "gpu", "driver": other, "pool": "p", "device": "d"},
        ]
        status: dict[str, Any] = {"allocation": {"devices": {"results": results}}}
        await at.wire.patch(f"{CLAIMS}/claim/status", {"status": status})
        path = f"{CLAIMS}/claim/status"
        body: JsonObject = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "claim"},
        }
        for driver, pool, device in ((DRIVER, "node-a", "gpu-0"), (other, "p", "d")):
            entry = {"driver": driver, "pool": pool, "device": device, "data": {"by": driver}}
            body["status"] = {"devices": [entry]}
            code, answer = await _apply(at, body, manager=driver, path=path)
            assert code == 200, answer
        _, answer = await at.wire.get(f"{CLAIMS}/claim")
        assert [entry["driver"] for entry in answer["status"]["devices"]] == [DRIVER, other]
        body["status"] = {}
        _, answer = await _apply(at, body, manager=other, path=path)
        assert [entry["driver"] for entry in answer["status"]["devices"]] == [DRIVER]
        assert "allocation" in answer["status"]

    served(scene)


def test_apply_of_a_status_needs_the_object() -> None:
    """A subresource cannot create."""

    async def scene(at: Served) -> None:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}}
        status, _ = await _apply(at, body, path=f"{PODS}/pod/status")
        assert status == 404
        applied = {**body, "spec": pod()["spec"]}
        status, answer = await _apply(at, applied, path=f"{PODS}/pod")
        assert (status, answer["spec"]["restartPolicy"]) == (201, "Always")

    served(scene)
