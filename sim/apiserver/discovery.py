"""The discovery documents: what a client asks before it knows anything.

Shapes are those of the unaggregated discovery (apimachinery: meta/v1 `APIVersions`,
`APIGroupList`, `APIResourceList`), which every client still understands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.resources import RESOURCES, ResourceType, served

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SUBRESOURCE_VERBS = {"binding": ["create"], "finalize": ["update"]}


def version_info(git_version: str) -> JsonObject:
    """Return `/version` for a *git_version* such as `v1.37.2`."""
    major, minor = git_version.removeprefix("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.26",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def document(segments: list[str], minor: int) -> JsonObject | None:
    """Return the discovery document of release 1.*minor* at a path, or None without any."""
    match segments:
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(name) for name in _group_names()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", name] if name in _group_names():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}
        case ["api", "v1"]:
            return _resource_list("", minor)
        case ["apis", name, "v1"] if name in _group_names():
            return _resource_list(name, minor)
        case _:
            return None


def _group_names() -> list[str]:
    return sorted({resource.group for resource in RESOURCES if resource.group})


def _group(name: str) -> JsonObject:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resource_list(group: str, minor: int) -> JsonObject:
    rows: list[JsonObject] = []
    for resource in served(minor):
        if resource.group == group:
            rows.extend(_rows(resource))
    head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if group else {})
    return {
        **head,
        "groupVersion": f"{group}/v1" if group else "v1",
        "resources": rows,
    }


def _rows(resource: ResourceType) -> list[JsonObject]:
    main: JsonObject = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if not resource.kept:
        main["verbs"] = ["create"]
    elif not resource.deletes_collection:
        main["verbs"] = [verb for verb in _VERBS if verb != "deletecollection"]
    if resource.categories:
        main["categories"] = list(resource.categories)
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    rows = [main]
    names = (*resource.subresources, *(("status",) if resource.status else ()))
    for name in names:
        row: JsonObject = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": "Binding" if name == "binding" else resource.kind,
            "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
        }
        rows.append(row)
    return rows
