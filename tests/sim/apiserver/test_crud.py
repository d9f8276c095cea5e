"""Objects are created, replaced and deleted as the real server does it."""

import re
from typing import Any

from tests.sim.apiserver.builders import (
    CLAIMS,
    PODS,
    SLICES,
    Served,
    claim,
    configmap,
    device,
    pod,
    resource_slice,
    served,
)

MAPS = "/api/v1/namespaces/default/configmaps"


def test_creation_fills_what_the_server_owns() -> None:
    """A created object comes back with identity, revision and defaults, whatever it claimed."""

    async def scene(at: Served) -> None:
        wanted = pod()
        wanted["metadata"] |= {"uid": "mine", "generation": 7, "creationTimestamp": "never"}
        wanted["status"] = {"phase": "Running"}
        status, made = await at.wire.post(PODS, wanted)
        assert status == 201
        assert (made["kind"], made["apiVersion"]) == ("Pod", "v1")
        metadata = made["metadata"]
        assert re.fullmatch(r"[0-9a-f-]{36}", metadata["uid"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
        assert metadata["generation"] == 1
        assert metadata["namespace"] == "default"
        assert made["status"]["phase"] == "Pending"
        assert made["spec"]["restartPolicy"] == "Always"
        assert await at.wire.get(f"{PODS}/pod") == (200, made)

    served(scene)


def test_names_are_generated_from_a_cut_base() -> None:
    """`generateName` is cut to 58 characters and gets five random ones."""

    async def scene(at: Served) -> None:
        names = set()
        for _ in range(3):
            wanted = configmap()
            wanted["metadata"] = {"generateName": "n" * 80}
            _, made = await at.wire.post(MAPS, wanted)
            names.add(made["metadata"]["name"])
        assert len(names) == 3
        assert all(re.fullmatch(r"n{58}[a-z0-9]{5}", name) for name in names)

    served(scene)


def test_what_cannot_be_created() -> None:
    """A taken name, a missing namespace, a foreign kind and a given revision are refused."""

    async def scene(at: Served) -> None:
        await at.wire.post(MAPS, configmap())
        status, answer = await at.wire.post(MAPS, configmap())
        assert (status, answer["reason"]) == (409, "AlreadyExists")
        status, answer = await at.wire.post("/api/v1/namespaces/none/configmaps", configmap())
        assert (status, answer["details"]) == (404, {"name": "none", "kind": "namespaces"})
        status, answer = await at.wire.post(MAPS, {**configmap("b"), "kind": "Secret"})
        assert (status, answer["reason"]) == (400, "BadRequest")
        status, _ = await at.wire.post(MAPS, configmap("c", resourceVersion="5"))
        assert status == 500
        status, _ = await at.wire.post(MAPS, configmap("d", namespace="kube-system"))
        assert status == 400
        status, _ = await at.wire.post(MAPS, {"metadata": {}})
        assert status == 422

    served(scene)


def test_an_update_from_an_old_revision_conflicts() -> None:
    """A PUT with a stale resourceVersion is refused; one without any wins."""

    async def scene(at: Served) -> None:
        _, first = await at.wire.post(MAPS, configmap())
        status, second = await at.wire.put(f"{MAPS}/map", {**first, "data": {"key": "2"}})
        assert status == 200
        assert int(second["metadata"]["resourceVersion"]) > int(
            first["metadata"]["resourceVersion"]
        )
        status, answer = await at.wire.put(f"{MAPS}/map", {**first, "data": {"key": "3"}})
        assert (status, answer["reason"]) == (409, "Conflict")
        status, third = await at.wire.put(f"{MAPS}/map", {**configmap(), "data": {"key": "4"}})
        assert (status, third["data"]) == (200, {"key": "4"})
        assert third["metadata"]["uid"] == first["metadata"]["uid"]
        status, _ = await at.wire.put(f"{MAPS}/map", configmap(uid="another"))
        assert status == 409
        status, _ = await at.wire.put(f"{MAPS}/other", configmap())
        assert status == 400
        status, _ = await at.wire.put(f"{MAPS}/absent", configmap("absent"))
        assert status == 404

    served(scene)


def test_an_update_that_changes_nothing_is_no_write() -> None:
    """The revision stays when the object stays."""

    async def scene(at: Served) -> None:
        _, made = await at.wire.post(SLICES, resource_slice(device()))
        _, again = await at.wire.put(f"{SLICES}/slice", resource_slice(device()))
        assert again == made

    served(scene)


def test_generation_counts_changes_of_the_spec() -> None:
    """A slice's generation moves with its spec and not with its labels."""

    async def scene(at: Served) -> None:
        await at.wire.post(SLICES, resource_slice(device()))
        labels = {"metadata": {"labels": {"a": "b"}}}
        _, labelled = await at.wire.patch(f"{SLICES}/slice", labels)
        assert labelled["metadata"]["generation"] == 1
        _, changed = await at.wire.put(f"{SLICES}/slice", resource_slice(device("gpu-1")))
        assert changed["metadata"]["generation"] == 2

    served(scene)


def test_status_and_spec_have_doors_of_their_own() -> None:
    """The main resource ignores status, the status subresource ignores the rest."""

    async def scene(at: Served) -> None:
        await at.wire.post(PODS, pod())
        both = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
        _, main = await at.wire.patch(f"{PODS}/pod", both)
        assert (main["status"]["phase"], main["metadata"]["labels"]) == ("Pending", {"a": "b"})
        forged = {**main, "spec": {}, "status": {"phase": "Running"}}
        status, answer = await at.wire.put(f"{PODS}/pod/status", forged)
        assert (status, answer["status"]["phase"]) == (200, "Running")
        assert answer["spec"] == main["spec"]

    served(scene)


def test_a_status_write_leaves_a_claims_metadata() -> None:
    """Labels and finalizers of a claim do not change through its status."""

    async def scene(at: Served) -> None:
        await at.wire.post(CLAIMS, claim())
        patch = {"metadata": {"labels": {"a": "b"}, "finalizers": ["x/y"]}}
        status, answer = await at.wire.patch(f"{CLAIMS}/claim/status", patch)
        assert status == 200
        assert not {"labels", "finalizers"} & answer["metadata"].keys()

    served(scene)


def test_dry_runs_store_nothing() -> None:
    """With `dryRun=All` the answer is what would be stored, and nothing is."""

    async def scene(at: Served) -> None:
        status, made = await at.wire.post(f"{MAPS}?dryRun=All", configmap())
        assert status == 201
        assert made["metadata"]["uid"]
        assert (await at.wire.get(f"{MAPS}/map"))[0] == 404
        _, kept = await at.wire.post(MAPS, configmap())
        patch = {"data": {"key": "2"}}
        _, answer = await at.wire.patch(f"{MAPS}/map?dryRun=All", patch)
        assert answer["data"] == {"key": "2"}
        assert (await at.wire.delete(f"{MAPS}/map?dryRun=All"))[0] == 200
        assert (await at.wire.delete(f"{MAPS}/map", {"dryRun": ["All"]}))[0] == 200
        assert await at.wire.get(f"{MAPS}/map") == (200, kept)
        assert (await at.wire.post(f"{MAPS}?dryRun=Some", configmap("b")))[0] == 422

    served(scene)


def test_unknown_fields_are_dropped_with_a_warning() -> None:
    """A field that the version lacks disappears; under Strict it is a 400."""

    async def scene(at: Served) -> None:
        wanted = resource_slice(device(colour="red"))
        status, made = await at.wire.post(SLICES, wanted)
        assert status == 201
        assert "colour" not in made["spec"]["devices"][0]
        assert at.wire.headers["Warning"] == r'299 - "unknown field \"spec.devices[0].colour\""'
        strict = resource_slice(device(colour="red"), name="b")
        status, answer = await at.wire.post(f"{SLICES}?fieldValidation=Strict", strict)
        assert (status, answer["reason"]) == (400, "BadRequest")
        assert 'unknown field "spec.devices[0].colour"' in answer["message"]
        await at.wire.post(f"{SLICES}?fieldValidation=Ignore", strict)
        assert "Warning" not in at.wire.headers

    served(scene)


def test_schema_violations_name_the_field() -> None:
    """A missing field is a 422 with its path, a wrong type a 400."""

    async def scene(at: Served) -> None:
        wanted = resource_slice(device())
        del wanted["spec"]["driver"]
        status, answer = await at.wire.post(SLICES, wanted)
        assert (status, answer["reason"]) == (422, "Invalid")
        cause = answer["details"]["causes"][0]
        assert (cause["reason"], cause["field"]) == ("FieldValueRequired", "spec.driver")
        wrong = resource_slice(device(), driver=5)
        status, answer = await at.wire.post(SLICES, wrong)
        assert (status, answer["reason"]) == (400, "BadRequest")

    served(scene)


def test_a_delete_can_be_conditional() -> None:
    """UID and resourceVersion in the body protect the wrong object."""

    async def scene(at: Served) -> None:
        _, made = await at.wire.post(SLICES, resource_slice(device()))
        path = f"{SLICES}/slice"
        status, answer = await at.wire.delete(path, {"preconditions": {"uid": "another"}})
        assert (status, answer["reason"]) == (409, "Conflict")
        stale = {"preconditions": {"resourceVersion": "1"}}
        assert (await at.wire.delete(path, stale))[0] == 409
        right = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
        status, answer = await at.wire.delete(path, {"preconditions": right})
        assert (status, answer["kind"]) == (200, "ResourceSlice")
        assert (await at.wire.delete(path))[0] == 404

    served(scene)


def test_finalizers_hold_an_object() -> None:
    """An object in deletion stays until its last finalizer goes, and gets no new ones."""

    async def scene(at: Served) -> None:
        path = f"{MAPS}/map"
        await at.wire.post(MAPS, configmap(finalizers=["example.com/a", "example.com/b"]))
        status, marked = await at.wire.delete(path)
        assert (status, marked["kind"]) == (200, "ConfigMap")
        assert marked["metadata"]["deletionTimestamp"]
        more = {"metadata": {"finalizers": ["example.com/a", "example.com/c"]}}
        status, answer = await at.wire.patch(path, more)
        assert (status, answer["details"]["causes"][0]["field"]) == (422, "metadata.finalizers")
        fewer = {"metadata": {"finalizers": ["example.com/b"]}}
        assert (await at.wire.patch(path, fewer))[0] == 200
        assert (await at.wire.get(path))[0] == 200
        assert (await at.wire.patch(path, {"metadata": {"finalizers": None}}))[0] == 200
        assert (await at.wire.get(path))[0] == 404

    served(scene)


def test_collections_are_deleted_by_selector() -> None:
    """DELETE on a collection removes what the selectors choose."""

    async def scene(at: Served) -> None:
        for number in range(3):
            name, node = f"slice-{number}", f"node-{number % 2}"
            await at.wire.post(SLICES, resource_slice(device(), name=name, nodeName=node))
        selector = "spec.nodeName%3Dnode-0"
        status, gone = await at.wire.delete(f"{SLICES}?fieldSelector={selector}")
        assert (status, len(gone["items"])) == (200, 2)
        _, left = await at.wire.get(SLICES)
        assert [item["metadata"]["name"] for item in left["items"]] == ["slice-1"]

    served(scene)


def test_secrets_keep_their_strings_encoded() -> None:
    """`stringData` is written into `data` and never read back."""

    async def scene(at: Served) -> None:
        wanted: dict[str, Any] = {"metadata": {"name": "s"}, "stringData": {"token": "abc"}}
        _, made = await at.wire.post("/api/v1/namespaces/default/secrets", wanted)
        assert (made["data"], made["type"]) == ({"token": "YWJj"}, "Opaque")
        assert "stringData" not in made

    served(scene)
