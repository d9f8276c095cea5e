"""From method and path to what is asked, as the real server's RequestInfo says it."""

from __future__ import annotations

from dataclasses import dataclass

from sim.apiserver.errors import NoPageError, no_such_path
from sim.apiserver.resources import RESOURCES, ResourceType, served

_GROUPS = {resource.group for resource in RESOURCES}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A resource, one object of it or a subresource of that."""

    resource: ResourceType
    namespace: str | None = None
    name: str = ""
    subresource: str = ""

    def verb(self, method: str, *, watch: bool) -> str:
        """Return Kubernetes' word for *method* on this."""
        if method in _VERBS:
            return _VERBS[method]
        if method == "DELETE":
            return "delete" if self.name else "deletecollection"
        if self.name:
            return "get"
        return "watch" if watch else "list"


def parse(segments: list[str], minor: int) -> Target:
    """Return what release 1.*minor* serves at a path that is split at its slashes; or 404."""
    match segments:
        case ["api", "v1", *rest]:
            group = ""
        case ["apis", group, "v1", *rest]:
            pass
        case ["api", _, *_]:
            raise no_such_path()
        case ["apis", named, *_] if named in _GROUPS:
            raise no_such_path()
        case _:
            raise NoPageError
    if group not in _GROUPS:
        raise NoPageError
    if len(rest) > len(("namespaces", "name")) and rest[0] == "namespaces":
        inner = _resource(group, rest[2], minor)
        if inner is not None and inner.namespaced:
            return _target(inner, rest[1], rest[3:])
    resource = _resource(group, rest[0], minor) if rest else None
    if resource is None or (resource.namespaced and len(rest) > 1):
        raise no_such_path()
    return _target(resource, None, rest[1:])


def _target(resource: ResourceType, namespace: str | None, rest: list[str]) -> Target:
    match rest:
        case []:
            return Target(resource=resource, namespace=namespace)
        case [name]:
            return Target(resource=resource, namespace=namespace, name=name)
        case [name, "status"] if resource.status:
            return Target(resource=resource, namespace=namespace, name=name, subresource="status")
        case [name, subresource] if subresource in resource.subresources:
            return Target(
                resource=resource, namespace=namespace, name=name, subresource=subresource
            )
        case _:
            raise no_such_path()


def _resource(group: str, plural: str, minor: int) -> ResourceType | None:
    for resource in served(minor):
        if (resource.group, resource.plural) == (group, plural):
            return resource
    return None
