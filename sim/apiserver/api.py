"""The in-process client: how the simulated scheduler, kubelets and controllers speak.

It has the semantics of the HTTP server, because both call the same `Writes`: every write is
validated, defaulted, checked for conflicts and shown to webhooks. What it leaves out is the wire,
so a component of the simulation costs no sockets and cannot be hit by injected faults.
All methods must be called in the loop of the server. Returned objects are the caller's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from sim.apiserver.requests import Listing, Write
from sim.apiserver.users import SIMULATION
from sim.apiserver.writes import Writes

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator

    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.registry import Registry

__all__ = ["APPLY_PATCH", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "Api"]


class Api:
    """A client of one server, for parts of the simulation; errors are `StatusError`.

    *user* is who writes, as webhooks are told. *resource* is the plural, such as `pods` or
    `resourceclaims`. *namespace* is None for cluster-scoped resources, and for a list or watch
    over all namespaces.
    """

    def __init__(self, registry: Registry, user: str = SIMULATION) -> None:
        self._registry = registry
        self._user = user
        self._writes = Writes(registry)

    def as_user(self, user: str) -> Api:
        """Return the same client for another user."""
        return Api(self._registry, user)

    async def get(self, resource: str, name: str, namespace: str | None = None) -> JsonObject:
        """Return one object."""
        return self._registry.get(resource, name, namespace)

    async def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
    ) -> tuple[builtins.list[JsonObject], str]:
        """Return the selected objects and the resourceVersion to watch from."""
        page = self._registry.list(resource, namespace, Listing(labels=labels, fields=fields))
        return page.items, page.resource_version

    async def create(
        self, resource: str, obj: JsonObject, namespace: str | None = None
    ) -> JsonObject:
        """Store *obj* and return it as stored; its own namespace counts when none is given."""
        return (await self._writes.create(resource, obj, namespace, Write(user=self._user))).obj

    async def update(
        self, resource: str, obj: JsonObject, *, subresource: str | None = None
    ) -> JsonObject:
        """Replace the object of the same name; its resourceVersion, if any, must be current."""
        write = Write(subresource=subresource or "", user=self._user)
        return (await self._writes.update(resource, obj, write)).obj

    async def patch(
        self,
        resource: str,
        name: str,
        patch: JsonObject | builtins.list[JsonObject],
        *,
        namespace: str | None = None,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
    ) -> JsonObject:
        """Change one object by a patch of *content_type* and return it as stored."""
        write = Write(subresource=subresource or "", patch_type=content_type, user=self._user)
        return (await self._writes.patch(resource, name, namespace, patch, write)).obj

    async def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_period_s: int | None = None,
        propagation: str = "",
    ) -> None:
        """Delete one object, at once or by marking it, as finalizers and grace demand."""
        write = Write(
            uid=uid or "",
            grace_period_s=grace_period_s,
            propagation=propagation,
            user=self._user,
        )
        await self._writes.delete(resource, name, namespace, write)

    async def bind(self, pod: str, namespace: str, *, node: str) -> None:
        """Bind a pod to a node, as the scheduler does; a bound pod is a conflict."""
        binding: JsonObject = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        write = Write(subresource="binding", user=self._user)
        await self._writes.bind(pod, namespace, binding, write)

    def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[tuple[str, JsonObject]]:
        """Yield (`ADDED`|`MODIFIED`|`DELETED`|`BOOKMARK`, object) after *resource_version*.

        Raise `GoneError` when the history has moved on; end only when the server stops.
        """
        return self._registry.watch(
            resource, namespace, Listing(labels=labels, fields=fields), resource_version
        )
