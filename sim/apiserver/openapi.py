"""As much of OpenAPI v3 as kubectl asks for before it sends an object.

It looks up whether PATCH of a kind takes `fieldValidation`, and then leaves validation to the
server (kubectl: `resource.NewQueryParamVerifierV3`). Schemas are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.resources import ResourceType, served

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force")
]


def document(segments: list[str], minor: int) -> JsonObject | None:
    """Return the index of documents or the one of a group version, None for other paths."""
    if segments[:2] != ["openapi", "v3"]:
        return None
    roots = {_root(resource) for resource in served(minor)}
    wanted = "/".join(segments[2:])
    if not wanted:
        urls = {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in sorted(roots)}
        return {"paths": urls}
    if wanted not in roots:
        return None
    paths = {_path(one): _operations(one) for one in served(minor) if _root(one) == wanted}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "simulated"},
        "paths": paths,
        "components": {"schemas": {}},
    }


def _root(resource: ResourceType) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _path(resource: ResourceType) -> str:
    middle = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"/{_root(resource)}/{middle}{resource.plural}/{{name}}"


def _operations(resource: ResourceType) -> JsonObject:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    patch = {
        "x-kubernetes-group-version-kind": kind,
        "x-kubernetes-action": "patch",
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK"}},
    }
    return {"patch": patch}
