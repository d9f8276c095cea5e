"""What a client can ask about the server itself, and lists made for printing."""

# ruff: noqa: D401 - scenes say what happens, as tests do

from typing import Any, Final

from tests.api_behaviour.scenes.objects import allocated, claim, pod, resource_slice
from tests.api_behaviour.server import DRA, JsonObject, Server

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_PARTIAL: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_KINDS: Final = {
    "/api/v1": (
        *("configmaps", "events", "namespaces", "nodes", "pods", "resourcequotas", "secrets"),
    ),
    DRA: ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/authorization.k8s.io/v1": ("subjectaccessreviews",),
}
_TOLD: Final = ("name", "singularName", "namespaced", "kind", "shortNames", "verbs", "categories")


def resources(api: Server) -> None:
    """Each resource is told with its names, scope and verbs."""
    for path, plurals in _KINDS.items():
        found = api.send("", "GET", path)
        api.tell(path, {key: found.get(key) for key in ("kind", "apiVersion", "groupVersion")})
        for row in found["resources"]:
            if row["name"].split("/")[0] in plurals:
                told: JsonObject = {key: row[key] for key in _TOLD if key in row}
                told["verbs"] = sorted(row["verbs"])
                api.tell(row["name"], told)


def groups(api: Server) -> None:
    """The groups are told with the version that is preferred."""
    found = api.send("", "GET", "/apis")
    api.tell("kind", (found["kind"], found["apiVersion"]))
    wanted = {"resource.k8s.io", "coordination.k8s.io"}
    mine = [each for each in found["groups"] if each["name"] in wanted]
    api.tell("groups", sorted(mine, key=lambda each: str(each["name"])))
    api.get("one group", "/apis/resource.k8s.io")
    api.tell("core", api.send("", "GET", "/api")["versions"])
    api.get("unknown group", "/apis/unknown.example.com")


def version(api: Server) -> None:
    """The version names the minor."""
    found = api.send("", "GET", "/version")
    api.tell("version", {key: found[key] for key in ("major", "minor")})
    api.tell("fields", sorted(set(found) & _VERSION_FIELDS))


_VERSION_FIELDS: Final = {
    *("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate"),
    *("goVersion", "compiler", "platform"),
}


def open_api(api: Server) -> None:
    """PATCH of every kind takes `fieldValidation`, which is what kubectl looks for."""
    index = api.send("", "GET", "/openapi/v3")["paths"]
    for root in ("api/v1", "apis/resource.k8s.io/v1"):
        document = api.send("", "GET", str(index[root]["serverRelativeURL"]).split("?")[0])
        for path, operations in sorted(document["paths"].items()):
            patch = operations.get("patch")
            kind = (patch or {}).get("x-kubernetes-group-version-kind", {}).get("kind", "")
            if patch is None or path.count("/status") or kind not in _PATCHED:
                continue
            told = {each.get("name") for each in patch["parameters"] + [{}]} & _QUERY
            api.tell(path, {"kind": kind, "parameters": sorted(told)})


_PATCHED: Final = {
    *("ConfigMap", "Node", "Pod", "Secret", "ResourceClaim", "ResourceClaimTemplate"),
    *("DeviceClass", "ResourceSlice"),
}
_QUERY: Final = {"dryRun", "fieldManager", "fieldValidation", "force"}


def tables(api: Server) -> None:
    """Who prefers a Table gets the columns of the resource and the metadata of each object."""
    name = api.own("one")
    node: JsonObject = {"metadata": {"name": name, "labels": {"node-role.kubernetes.io/gpu": ""}}}
    driver = {"driver": f"{api.namespace}.example.com"}
    for path, body in (
        (api.at("pods"), pod("one")),
        (api.at("nodes"), node),
        (api.at("configmaps"), {"metadata": {"name": "one"}, "data": {"a": "b"}}),
        (api.dra("resourceclaims"), claim("one")),
        (api.dra("resourceclaimtemplates"), {**claim("one"), "spec": {"spec": claim()["spec"]}}),
        (api.dra("deviceclasses"), {"metadata": {"name": name}, "spec": {}}),
        (api.dra("resourceslices"), resource_slice(name, **driver)),
    ):
        api.send("", "POST", path, body)
        one = f"{path}/{body['metadata']['name']}"
        plural = path.rsplit("/", maxsplit=1)[-1]
        found = api.send("", "GET", one, headers={"Accept": _TABLE})
        api.tell(plural, _printed(found))
        last = api.send("", "GET", path, headers={"Accept": _TABLE})
        api.tell(f"list of {plural}", [each["name"] for each in last["columnDefinitions"]])
    stored = api.send("", "GET", api.dra("resourceclaims", "one"))
    path = api.dra("resourceclaims", "one")
    api.send("", "PUT", f"{path}/status", allocated(stored))
    found = api.send("", "GET", path, headers={"Accept": _TABLE})
    api.tell("allocated claim", _printed(found))
    api.get("metadata alone", api.at("configmaps"), {"labelSelector": "none"}, _PARTIAL)
    for path in (api.at("nodes"), api.dra("deviceclasses"), api.dra("resourceslices")):
        api.send("", "DELETE", f"{path}/{name}")


def _printed(found: JsonObject) -> JsonObject:
    columns = [
        {key: each[key] for key in ("name", "type", "format", "priority")}
        for each in found["columnDefinitions"]
    ]
    cells: list[list[Any]] = [
        [
            "<age>" if column["name"] == "Age" else cell
            for column, cell in zip(columns, row["cells"], strict=True)
        ]
        for row in found["rows"]
    ]
    kinds = [row["object"]["kind"] for row in found["rows"]]
    return {"kind": found["kind"], "columns": columns, "cells": cells, "objects": kinds}
