"""Objects are made, read, replaced and deleted, and refused where they have to be."""

# ruff: noqa: D401 - scenes say what happens, as tests do

from tests.api_behaviour.server import JsonObject, Server


def config(name: str = "one", **metadata: object) -> JsonObject:
    """Return the simplest of all objects."""
    return {"metadata": {"name": name, **metadata}, "data": {"key": "value"}}


def life_of_an_object(api: Server) -> None:
    """An object is made, found, listed, replaced and deleted."""
    path = api.at("configmaps")
    made = api.post("made", path, config(labels={"a": "b"}))
    api.get("found", f"{path}/one")
    api.get("listed", path, {"labelSelector": "a"})
    api.put("replaced", f"{path}/one", {**made, "data": {"key": "new"}})
    api.put("replaced without version", f"{path}/one", config())
    api.delete("deleted", f"{path}/one")
    api.get("gone", f"{path}/one")


def deletions_answer(api: Server) -> None:
    """Each resource answers a DELETE in its own way: with the object or with a Status."""
    for plural, body in (
        ("resourceclaims", {"spec": {}}),
        ("resourceclaimtemplates", {"spec": {"spec": {}}}),
        ("deviceclasses", {"spec": {}}),
    ):
        name = api.own("going") if plural == "deviceclasses" else "going"
        api.send("", "POST", api.dra(plural), {**body, "metadata": {"name": name}})
        api.delete(plural, api.dra(plural, name))
    for plural in ("secrets", "serviceaccounts"):
        api.send("", "POST", api.at(plural), {"metadata": {"name": "going"}})
        api.delete(plural, api.at(plural, "going"))


def what_is_not_there(api: Server) -> None:
    """Unknown names, kinds, versions and namespaces are a 404, each with its own words."""
    path = api.at("configmaps", "none")
    api.get("name", path)
    api.get("claim", api.dra("resourceclaims", "none"))
    api.put("replaced", path, config("none"))
    api.patch("patched", path, {"data": {"a": "b"}})
    api.delete("deleted", path)
    api.get("kind", "/apis/resource.k8s.io/v1/unknowns")
    api.get("group", "/apis/unknown.example.com/v1/things")
    api.get("version", "/apis/resource.k8s.io/v9/resourceslices")
    api.get("core version", "/api/v2/pods")
    api.post("namespace", "/api/v1/namespaces/no-such-namespace/configmaps", config())


def conflicts(api: Server) -> None:
    """A name that is taken and a version that is old are a 409."""
    path = api.at("configmaps")
    old = api.send("", "POST", path, config())
    api.post("taken", path, config())
    claim = {"metadata": {"name": "one"}, "spec": {}}
    api.send("", "POST", api.dra("resourceclaims"), claim)
    api.post("taken claim", api.dra("resourceclaims"), claim)
    api.send("", "PUT", f"{path}/one", {**old, "data": {}})
    api.put("old version", f"{path}/one", {**old, "data": {"key": "late"}})
    api.patch("patch of an old version", f"{path}/one", {"metadata": old["metadata"]})
    other = {"uid": "00000000-0000-4000-8000-000000000000"}
    api.put("another identity", f"{path}/one", config(**other))


def preconditions(api: Server) -> None:
    """A DELETE counts only for the identity and version that it names."""
    path = api.at("configmaps")
    made = api.send("", "POST", path, config())["metadata"]
    uid = "00000000-0000-4000-8000-000000000000"
    api.delete("another identity", f"{path}/one", {"preconditions": {"uid": uid}})
    api.delete("another version", f"{path}/one", {"preconditions": {"resourceVersion": "1"}})
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    api.delete("right", f"{path}/one", {"preconditions": right})


def generated_names(api: Server) -> None:
    """A name is made from `generateName`; an object with neither is refused."""
    path = api.at("configmaps")
    api.post("generated", path, {"metadata": {"generateName": "generated-"}})
    api.post("both", path, {"metadata": {"generateName": "generated-", "name": "own"}})
    api.post("neither", path, {"metadata": {}})
    api.post("base of a wrong form", path, {"metadata": {"generateName": "Generated_"}})
    long = api.send("", "POST", path, {"metadata": {"generateName": "g" * 80}})
    api.tell("length of a long one", len(long["metadata"]["name"]))


def requests_without_sense(api: Server) -> None:
    """What cannot be understood is a 400, a 405 or a 415."""
    path = api.at("configmaps")
    api.post("another kind", path, {"apiVersion": "v1", "kind": "Secret", "metadata": {}})
    api.post("version on creation", path, config(resourceVersion="5"))
    api.post("another namespace", path, config(namespace="other"))
    api.send("", "POST", path, config())
    api.put("another name", f"{path}/one", config("two"))
    api.post("creation of a named path", f"{path}/one", config())
    api.put("replacement of all", path, config())
    api.patch("unknown patch", f"{path}/one", {}, "application/unknown+json")
    api.post("wrong type", path, {"metadata": {"name": "typed"}, "data": {"key": 5}})
    api.post("list for an object", path, {"metadata": {"name": "typed"}, "data": []})


def unknown_fields(api: Server) -> None:
    """A field that the type lacks is dropped, with a warning or a refusal where that is asked."""
    path = api.at("configmaps")
    body = {**config(), "wrong": 1, "data": {"key": "value"}}
    api.post("strict", path, body, {"fieldValidation": "Strict"})
    api.post("warned", path, body, {"fieldValidation": "Warn", "dryRun": "All"})
    api.post("ignored", path, body, {"fieldValidation": "Ignore", "dryRun": "All"})
    api.post("other word", path, body, {"fieldValidation": "Perhaps"})
    claim = {"metadata": {"name": "one"}, "spec": {"devices": {"request": []}}}
    strict = {"fieldValidation": "Strict"}
    api.post("strict, deeper", api.dra("resourceclaims"), claim, strict)


def trials(api: Server) -> None:
    """A dry run answers as the real thing does and stores nothing."""
    path = api.at("configmaps")
    api.post("made", path, config(), {"dryRun": "All"})
    api.get("not stored", f"{path}/one")
    api.post("other word", path, config(), {"dryRun": "Some"})
    api.send("", "POST", path, config())
    api.delete("deleted", f"{path}/one", None, dryRun="All")
    api.get("stored", f"{path}/one")


def collections(api: Server) -> None:
    """What a selector selects is deleted at once."""
    path = api.at("configmaps")
    for name, label in (("one", "a"), ("two", "a"), ("three", "b")):
        api.send("", "POST", path, config(name, labels={"is": label}))
    api.delete("two of them", path, None, labelSelector="is=a")
    api.get("what is left", path, {"labelSelector": "is"})


def metadata_rules(api: Server) -> None:
    """Names, labels, annotations, owners and finalizers have their forms."""
    path = api.at("configmaps")
    for label, body in (
        ("name", config("Upper")),
        ("label key", config(labels={"a/b/c": "d"})),
        ("label value", config(labels={"a": "-"})),
        ("annotation key", config(annotations={"a b": "c"})),
        ("finalizer", config(finalizers=["unqualified"])),
        ("owner", config(ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "n"}])),
        ("empty owner", config(ownerReferences=[{}])),
    ):
        api.post(label, path, body)
    made = api.send("", "POST", path, config())
    stamp = {**made["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"}
    api.put("time of creation", f"{path}/one", {**made, "metadata": stamp})
