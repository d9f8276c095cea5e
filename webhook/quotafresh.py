"""Lists that show all that is stored: read from the API server without a resource version.

Without one the server must answer from etcd's newest state, so the list has whatever was stored
before it was asked. Caches, its own and ours, may lag.
"""

import asyncio
import json
from typing import Any

from kube.client import Client
from kube.errors import NotFoundError, NotServedError, ServerError
from kube.objects import JsonObject
from kube.paths import DRA_VERSION, pods, resource_claims


class ApiLists:
    """Lists through *client*, in threads."""

    def __init__(self, client: Client, *, dra_version: str = DRA_VERSION) -> None:
        self._client = client
        self._dra_version = dra_version

    async def pods(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return all pods of *namespace*; raises `KubeError`."""
        return await asyncio.to_thread(self._list, pods(namespace))

    async def claims(self, namespace: str) -> tuple[JsonObject, ...]:
        """Return all claims of *namespace*, none where the server has no such kind."""
        path = resource_claims(namespace, version=self._dra_version)
        try:
            return await asyncio.to_thread(self._list, path)
        except (NotFoundError, NotServedError):
            return ()

    def _list(self, path: str) -> tuple[JsonObject, ...]:
        found: Any = json.loads(self._client.get(path))
        items = found.get("items") if isinstance(found, dict) else None
        if not isinstance(items, list):
            raise ServerError(status=200, reason="", message=f"GET {path}: no list")
        return tuple(item for item in items if isinstance(item, dict))
