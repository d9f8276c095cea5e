"""All patch formats, over the wire."""

from typing import Any

import pytest

from tests.sim.apiserver.builders import CLAIMS, PODS, Served, claim, configmap, pod, served

MAPS = "/api/v1/namespaces/default/configmaps"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def test_a_merge_patch_merges_objects_and_replaces_lists() -> None:
    """RFC 7386: null removes, objects merge, lists are replaced."""

    async def scene(at: Served) -> None:
        await at.wire.post(MAPS, configmap(labels={"a": "1", "b": "2"}, finalizers=["x/y"]))
        patch = {"metadata": {"labels": {"a": None, "c": "3"}, "finalizers": ["z/z"]}}
        _, answer = await at.wire.patch(f"{MAPS}/map", patch)
        assert answer["metadata"]["labels"] == {"b": "2", "c": "3"}
        assert answer["metadata"]["finalizers"] == ["z/z"]

    served(scene)


def test_a_json_patch_applies_all_or_nothing() -> None:
    """RFC 6902: operations apply in order; one that fails refuses the whole patch."""

    async def scene(at: Served) -> None:
        await at.wire.post(MAPS, configmap(annotations={"example.com/a": "1"}))
        operations = [
            {"op": "test", "path": "/data/key", "value": "value"},
            {"op": "replace", "path": "/metadata/annotations/example.com~1a", "value": "2"},
            {"op": "add", "path": "/data/more", "value": "x"},
        ]
        status, answer = await at.wire.patch(f"{MAPS}/map", operations, JSON_PATCH)
        assert (status, answer["data"]) == (200, {"key": "value", "more": "x"})
        assert answer["metadata"]["annotations"] == {"example.com/a": "2"}
        for bad in (
            {"op": "test", "path": "/data/key", "value": "other"},
            {"op": "remove", "path": "/data/none"},
        ):
            good = {"op": "add", "path": "/data/never", "value": "x"}
            status, _ = await at.wire.patch(f"{MAPS}/map", [good, bad], JSON_PATCH)
            assert status == 422
        assert "never" not in (await at.wire.get(f"{MAPS}/map"))[1]["data"]
        assert (await at.wire.patch(f"{MAPS}/map", {}, JSON_PATCH))[0] == 400

    served(scene)


def test_a_strategic_patch_merges_lists_by_their_key() -> None:
    """Containers merge by name and conditions by type, as the schema says."""

    async def scene(at: Served) -> None:
        await at.wire.post(PODS, pod())
        patch: dict[str, Any] = {"spec": {"containers": [{"name": "main", "image": "image:2"}]}}
        status, answer = await at.wire.patch(f"{PODS}/pod", patch, STRATEGIC)
        assert status == 200
        container = answer["spec"]["containers"][0]
        assert (container["image"], container["imagePullPolicy"]) == ("image:2", "IfNotPresent")
        for kind, value in (("Ready", "False"), ("Scheduled", "True"), ("Ready", "True")):
            patch = {"status": {"conditions": [{"type": kind, "status": value}]}}
            _, answer = await at.wire.patch(f"{PODS}/pod/status", patch, STRATEGIC)
        conditions = {each["type"]: each["status"] for each in answer["status"]["conditions"]}
        assert conditions == {"Scheduled": "True", "Ready": "True"}
        gone = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
        _, answer = await at.wire.patch(f"{PODS}/pod/status", gone, STRATEGIC)
        assert [entry["type"] for entry in answer["status"]["conditions"]] == ["Scheduled"]
        new = {"status": {"conditions": [{"$patch": "replace"}, {"type": "A", "status": "True"}]}}
        _, answer = await at.wire.patch(f"{PODS}/pod/status", new, STRATEGIC)
        assert [entry["type"] for entry in answer["status"]["conditions"]] == ["A"]
        nameless = {"spec": {"containers": [{"image": "image:3"}]}}
        assert (await at.wire.patch(f"{PODS}/pod", nameless, STRATEGIC))[0] == 500

    served(scene)


def test_a_strategic_patch_unites_sets() -> None:
    """Finalizers are a set: a strategic patch adds to them."""

    async def scene(at: Served) -> None:
        await at.wire.post(CLAIMS, claim())
        for name in ("a/a", "b/b", "a/a"):
            patch = {"metadata": {"finalizers": [name]}}
            assert (await at.wire.patch(f"{CLAIMS}/claim", patch, STRATEGIC))[0] == 200
        _, answer = await at.wire.get(f"{CLAIMS}/claim")
        assert answer["metadata"]["finalizers"] == ["b/b", "a/a"]

    served(scene)


def test_a_revision_in_a_patch_must_be_current() -> None:
    """A patch may carry the resourceVersion that it was made for."""

    async def scene(at: Served) -> None:
        _, made = await at.wire.post(MAPS, configmap())
        patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {}}
        patch["data"] = {"key": "2"}
        assert (await at.wire.patch(f"{MAPS}/map", patch))[0] == 200
        patch["data"] = {"key": "3"}
        status, answer = await at.wire.patch(f"{MAPS}/map", patch)
        assert (status, answer["reason"]) == (409, "Conflict")

    served(scene)


@pytest.mark.parametrize(("content_type", "status"), [("text/plain", 415), (STRATEGIC, 200)])
def test_unknown_patch_formats_are_refused(content_type: str, status: int) -> None:
    """A content type that is no patch format is a 415."""

    async def scene(at: Served) -> None:
        await at.wire.post(MAPS, configmap())
        answer = await at.wire.patch(f"{MAPS}/map", {"data": {"a": "b"}}, content_type)
        assert answer[0] == status

    served(scene)


def test_a_patch_cannot_rename() -> None:
    """Name and UID of an object stay what they are."""

    async def scene(at: Served) -> None:
        _, made = await at.wire.post(MAPS, configmap())
        status, _ = await at.wire.patch(f"{MAPS}/map", {"metadata": {"name": "other"}})
        assert status == 400
        status, _ = await at.wire.patch(f"{MAPS}/map", {"metadata": {"uid": "other"}})
        assert status == 409
        assert await at.wire.get(f"{MAPS}/map") == (200, made)

    served(scene)
