"""Copies of what the scheduler looks at, kept by list and watch.

Own writes are put in at once, so that the next decision counts what is in flight; an event that
is older than what is known is dropped. Resource versions are compared as numbers, which
Kubernetes allows its clients since 1.35.
"""

import asyncio
from collections.abc import Callable

import structlog

from kube.objects import JsonObject, ObjectKey, key_of
from sim.apiserver.api import Api
from sim.apiserver.errors import GoneError

log = structlog.get_logger(__name__)

OnChange = Callable[[ObjectKey, JsonObject | None, JsonObject | None], None]
"""Called with the key, what was known before, and what is known now."""


class Mirror:
    """The objects of one resource."""

    def __init__(self, api: Api, resource: str, on_change: OnChange) -> None:
        self.items: dict[ObjectKey, JsonObject] = {}
        """Oldest first."""
        self.synced = asyncio.Event()
        self._api = api
        self._resource = resource
        self._on_change = on_change

    async def run(self) -> None:
        """Follow the resource until cancelled."""
        while True:
            version = await self._relist()
            self.synced.set()
            try:
                await self._follow(version)
            except GoneError:
                log.info("watch expired", resource=self._resource)

    def put(self, item: JsonObject) -> None:
        """Take in *item*, unless it is older than what is known."""
        key = key_of(item)
        before = self.items.get(key)
        if before is not None and _version(item) <= _version(before):
            return
        self.items[key] = item
        self._on_change(key, before, item)

    async def _relist(self) -> str:
        listed, version = await self._api.list(self._resource)
        found = {key_of(item) for item in listed}
        for key in [key for key in self.items if key not in found]:
            self._drop(key)
        for item in sorted(listed, key=_age):
            self.put(item)
        return version

    async def _follow(self, version: str) -> None:
        async for kind, item in self._api.watch(self._resource, resource_version=version):
            if kind == "DELETED":
                self._drop(key_of(item))
            elif kind != "BOOKMARK":
                self.put(item)

    def _drop(self, key: ObjectKey) -> None:
        before = self.items.pop(key, None)
        if before is not None:
            self._on_change(key, before, None)


def _version(item: JsonObject) -> int:
    return int(item["metadata"]["resourceVersion"])


def _age(item: JsonObject) -> tuple[str, int]:
    return item["metadata"].get("creationTimestamp", ""), _version(item)
