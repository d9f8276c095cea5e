"""What is owned goes with its owner, in the order that the one who deletes asks for."""

# ruff: noqa: D401 - scenes say what happens, as tests do

from tests.api_behaviour.scenes.writing import config
from tests.api_behaviour.server import JsonObject, Server
from tests.patience import eventually

_FINALIZER = "example.com/mine"


def _owned(name: str, owner: JsonObject, **more: object) -> JsonObject:
    metadata = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"]}
    reference["uid"] = metadata["uid"]
    return config(name, ownerReferences=[{**reference, **more}])


def _gone(api: Server, name: str) -> None:
    path = api.at("configmaps", name)
    eventually(lambda: api.send("", "GET", path).get("code") == 404)


def _family(api: Server, **more: object) -> None:
    """Make an owner and one that depends on it and has a finalizer."""
    path = api.at("configmaps")
    owner = api.send("", "POST", path, config("owner"))
    child = _owned("child", owner, **more)
    child["metadata"]["finalizers"] = [_FINALIZER]
    api.send("", "POST", path, child)


def _let_go(api: Server, name: str) -> None:
    patch = {"metadata": {"finalizers": None}}
    headers = {"Content-Type": "application/merge-patch+json"}
    api.send("", "PATCH", api.at("configmaps", name), patch, headers=headers)


def background(api: Server) -> None:
    """By itself an owner goes at once and what depends on it goes after it."""
    _family(api)
    api.delete("owner", api.at("configmaps", "owner"))
    api.get("owner is gone", api.at("configmaps", "owner"))
    child = api.at("configmaps", "child")
    eventually(lambda: api.send("", "GET", child)["metadata"].get("deletionTimestamp"))
    api.get("child is going", child)
    _let_go(api, "child")
    _gone(api, "child")


def foreground(api: Server) -> None:
    """In the foreground an owner waits for those that block it."""
    _family(api, blockOwnerDeletion=True)
    owner = api.at("configmaps", "owner")
    api.delete("asked", owner, {"propagationPolicy": "Foreground"})
    child = api.at("configmaps", "child")
    eventually(lambda: api.send("", "GET", child)["metadata"].get("deletionTimestamp"))
    api.get("child is going", child)
    api.get("owner waits", owner)
    _let_go(api, "child")
    _gone(api, "child")
    _gone(api, "owner")


def foreground_without_blocking(api: Server) -> None:
    """Those that do not block are deleted too, but the owner does not wait for them."""
    _family(api)
    api.delete("asked", api.at("configmaps", "owner"), None, propagationPolicy="Foreground")
    _gone(api, "owner")
    child = api.at("configmaps", "child")
    eventually(lambda: api.send("", "GET", child)["metadata"].get("deletionTimestamp"))
    _let_go(api, "child")
    _gone(api, "child")


def foreground_alone(api: Server) -> None:
    """An owner of nothing goes in the foreground too."""
    api.send("", "POST", api.at("configmaps"), config("owner"))
    api.delete("asked", api.at("configmaps", "owner"), {"propagationPolicy": "Foreground"})
    _gone(api, "owner")


def orphaned(api: Server) -> None:
    """An orphan stays and loses its owner."""
    path = api.at("configmaps")
    owner = api.send("", "POST", path, config("owner"))
    api.send("", "POST", path, _owned("child", owner))
    api.delete("asked", f"{path}/owner", {"propagationPolicy": "Orphan"})
    _gone(api, "owner")
    child = f"{path}/child"
    eventually(lambda: not api.send("", "GET", child)["metadata"].get("ownerReferences"))
    api.get("child stays", child)


def wrong_policies(api: Server) -> None:
    """A policy is one of three words, and stands in for the older switch."""
    path = api.at("configmaps")
    api.send("", "POST", path, config("owner"))
    api.delete("another word", f"{path}/owner", {"propagationPolicy": "Sideways"})
    both = {"propagationPolicy": "Foreground", "orphanDependents": True}
    api.delete("both", f"{path}/owner", both)
    api.delete("preconditions of a wrong type", f"{path}/owner", {"preconditions": "x"})


def absent_owner(api: Server) -> None:
    """Who names an owner that is not there, or of another identity, goes."""
    path = api.at("configmaps")
    owner = api.send("", "POST", path, config("owner"))
    owner["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    api.send("", "POST", path, _owned("child", owner))
    _gone(api, "child")
    api.get("the namesake stays", f"{path}/owner")


def two_owners(api: Server) -> None:
    """The last of two owners takes what they own along."""
    path = api.at("configmaps")
    one = api.send("", "POST", path, config("one"))
    two = api.send("", "POST", path, config("two"))
    child = _owned("child", one)
    child["metadata"]["ownerReferences"] += _owned("", two)["metadata"]["ownerReferences"]
    api.send("", "POST", path, child)
    api.send("", "DELETE", f"{path}/one")
    references = eventually(lambda: _owners_without(api, f"{path}/child", "one"))
    api.tell("the owner that is left", references)
    api.send("", "DELETE", f"{path}/two")
    _gone(api, "child")


def _owners_without(api: Server, path: str, name: str) -> list[JsonObject]:
    found: list[JsonObject] = api.send("", "GET", path)["metadata"]["ownerReferences"]
    return [] if any(each["name"] == name for each in found) else found


def two_controllers(api: Server) -> None:
    """Only one owner can be the controller."""
    owner = {"apiVersion": "v1", "kind": "Node", "controller": True}
    uids = ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002")
    owners = [{**owner, "name": f"node-{uid[-1]}", "uid": uid} for uid in uids]
    api.post("two", api.at("configmaps"), config(ownerReferences=owners))


def finalizers(api: Server) -> None:
    """An object in deletion stays until its last finalizer has gone, and gets no new ones."""
    path = api.at("configmaps")
    api.send("", "POST", path, config(finalizers=[_FINALIZER, "example.com/other"]))
    one = f"{path}/one"
    api.delete("asked", one)
    api.get("marked", one)
    api.delete("asked again", one)
    api.patch("can be changed", one, {"data": {"key": "late"}})
    added = [_FINALIZER, "example.com/other", "example.com/new"]
    api.patch("new finalizer", one, {"metadata": {"finalizers": added}})
    api.patch("first goes", one, {"metadata": {"finalizers": ["example.com/other"]}})
    api.post("name is still taken", path, config())
    api.patch("unmarked", one, {"metadata": {"deletionTimestamp": None}})
    api.patch("last goes", one, {"metadata": {"finalizers": []}})
    api.get("gone", one)
