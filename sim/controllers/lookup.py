"""Reading one object that may be gone by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.apiserver.errors import StatusError

if TYPE_CHECKING:
    from kube.objects import JsonObject
    from sim.apiserver.api import Api


async def find(api: Api, resource: str, namespace: str, name: str) -> JsonObject | None:
    """Return an object, or None when there is none of that name."""
    try:
        return await api.get(resource, name, namespace)
    except StatusError as error:
        if error.code != 404:
            raise
        return None
