"""The four patch formats, and what one field manager owns."""

# ruff: noqa: D401 - scenes say what happens, as tests do

from kube.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.api_behaviour.scenes.objects import claim, pod, request
from tests.api_behaviour.scenes.writing import config
from tests.api_behaviour.server import JsonObject, Server


def merge_patches(api: Server) -> None:
    """Objects merge, null removes, lists are replaced."""
    path = api.at("configmaps", "one")
    api.send("", "POST", api.at("configmaps"), config(labels={"a": "b"}, finalizers=["x.y/z"]))
    patch = {"metadata": {"labels": {"c": "d", "a": None}, "finalizers": ["x.y/w"]}}
    api.patch("merged", path, patch)
    api.patch("nothing new", path, patch)
    api.patch("of a list", path, [])
    api.patch("of the name", path, {"metadata": {"name": "two"}})
    api.patch("wrong type", path, {"data": {"key": 1}})
    api.patch("unknown field", path, {"nonsense": 1})
    api.patch("unknown, strict", path, {"nonsense": 1}, params={"fieldValidation": "Strict"})
    api.send("", "PATCH", path, {"metadata": {"finalizers": None}}, headers=_MERGE)


_MERGE = {"Content-Type": MERGE_PATCH}


def json_patches(api: Server) -> None:
    """Operations are carried out in order; one that cannot be is a 422."""
    path = api.at("configmaps", "one")
    api.send("", "POST", api.at("configmaps"), config())
    test = {"op": "test", "path": "/data/key", "value": "value"}
    add = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    api.patch("tested and added", path, [test, add], JSON_PATCH)
    api.patch("test fails", path, [{**test, "value": "other"}], JSON_PATCH)
    api.patch("nothing there", path, [{"op": "remove", "path": "/data/none"}], JSON_PATCH)
    api.patch("unknown operation", path, [{"op": "turn", "path": "/data/key"}], JSON_PATCH)
    api.patch("no list", path, {"op": "remove"}, JSON_PATCH)
    api.patch("replaced", path, [{**test, "op": "replace", "value": "new"}], JSON_PATCH)


def strategic_patches(api: Server) -> None:
    """Lists merge by their keys where the type says so; directives replace and delete."""
    path = api.at("pods", "one")
    tolerations = [{"key": "a", "operator": "Exists"}]
    api.send("", "POST", api.at("pods"), pod("one", tolerations=tolerations))
    image: JsonObject = {"containers": [{"name": "main", "image": "image:2"}]}
    api.patch("one container", path, {"spec": image}, STRATEGIC_PATCH)
    api.patch("no key", path, {"spec": {"containers": [{"image": "x"}]}}, STRATEGIC_PATCH)
    more = {"spec": {"containers": [{"name": "more", "image": "x"}]}}
    api.patch("container added", path, more, STRATEGIC_PATCH)
    labels = {"metadata": {"labels": {"a": "b", "c": "d"}}}
    api.patch("labels", path, labels, STRATEGIC_PATCH)
    api.patch("a label less", path, {"metadata": {"labels": {"a": None}}}, STRATEGIC_PATCH)
    replaced = {"metadata": {"labels": {"$patch": "replace", "e": "f"}}}
    api.patch("labels replaced", path, replaced, STRATEGIC_PATCH)
    api.patch("finalizers", path, {"metadata": {"finalizers": ["x.y/a"]}}, STRATEGIC_PATCH)
    api.patch("merged finalizers", path, {"metadata": {"finalizers": ["x.y/b"]}}, STRATEGIC_PATCH)
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.y/a", "x.y/b"]}}
    api.patch("finalizers gone", path, gone, STRATEGIC_PATCH)
    condition = {"type": "Mine", "status": "True"}
    api.patch(
        "conditions merge by type",
        f"{path}/status",
        {"status": {"conditions": [condition]}},
        STRATEGIC_PATCH,
    )
    condition = {"type": "Mine", "status": "False"}
    api.patch(
        "condition changed",
        f"{path}/status",
        {"status": {"conditions": [condition]}},
        STRATEGIC_PATCH,
    )
    for kind in ("Other", "Another"):
        more = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        api.patch(f"condition {kind}", f"{path}/status", more, STRATEGIC_PATCH)


def applying(api: Server) -> None:
    """An apply creates, changes, and removes what its manager no longer says."""
    path = api.at("configmaps", "one")
    me = {"fieldManager": "me"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    api.patch("no manager", path, body, APPLY_PATCH)
    first = {**body, "data": {"a": "1", "b": "2"}}
    api.patch("created", path, first, APPLY_PATCH, me)
    before = api.get("again the same", path)["metadata"]["resourceVersion"]
    same = api.send("", "PATCH", path, first, params=me, headers=_APPLY)
    api.tell("version stays", same["metadata"]["resourceVersion"] == before)
    api.patch("changed", path, {**body, "data": {"a": "3"}}, APPLY_PATCH, me)
    api.patch("no kind", path, {"metadata": {}}, APPLY_PATCH, me)
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}
    api.patch("another kind", path, other, APPLY_PATCH, me)
    managed = {**body, "metadata": {"managedFields": [{"manager": "x"}]}}
    api.patch("with managed fields", path, managed, APPLY_PATCH, me)


_APPLY = {"Content-Type": APPLY_PATCH}


def owned_fields(api: Server) -> None:
    """What one manager applied is a conflict for another, unless it forces."""
    path = api.at("configmaps", "one")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
    mine = {**body, "data": {"a": "1", "b": "2"}}
    made = api.send("", "PATCH", path, mine, params={"fieldManager": "me"}, headers=_APPLY)
    api.tell("owned", [each["fieldsV1"] for each in made["metadata"]["managedFields"]])
    other = {"fieldManager": "other"}
    api.patch("conflict", path, {**body, "data": {"a": "9"}}, APPLY_PATCH, other)
    theirs = {**body, "data": {"a": "9", "b": "9"}}
    api.patch("two conflicts", path, theirs, APPLY_PATCH, other)
    api.patch("same value", path, {**body, "data": {"a": "1"}}, APPLY_PATCH, other)
    force = {**other, "force": "true"}
    api.patch("forced", path, {**body, "data": {"a": "9"}}, APPLY_PATCH, force)
    api.patch("given up", path, body, APPLY_PATCH, other)
    api.patch("left to the first", path, {**body, "data": {"b": "2"}}, APPLY_PATCH, _ME)


_ME = {"fieldManager": "me"}


def applied_claims(api: Server) -> None:
    """The lists of a claim belong to who applied them as a whole, its status to another part."""
    path = api.dra("resourceclaims", "claim")
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim()}
    api.patch("created", path, body, APPLY_PATCH, _ME)
    api.patch("again", path, body, APPLY_PATCH, _ME)
    changed = {**body, **claim("claim", request(count=2))}
    api.patch("spec is immutable", path, changed, APPLY_PATCH, _ME)
    status = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim"},
        "status": {"devices": []},
    }
    api.patch("status", f"{path}/status", status, APPLY_PATCH, _ME)
