"""Reads: one object, a page of a list, a watch."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.apiserver.errors import GoneError, bad_request, no_such_path, not_found
from sim.apiserver.json_values import copy_json
from sim.apiserver.requests import Page
from sim.apiserver.resources import ResourceType, resource_type
from sim.apiserver.selectors import selection
from sim.apiserver.watching import Watcher, check_list_revision, parse_revision

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator

    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.requests import Listing
    from sim.apiserver.selectors import Selection
    from sim.apiserver.storage import Key, Store
    from sim.apiserver.versions import Version

_SNAPSHOTS_MAX = 64
_TOKEN_LENGTH = 22


def key_of(resource: ResourceType, name: str, namespace: str | None) -> Key:
    """Return the key of an object; 400 when the namespace is missing."""
    if not resource.namespaced:
        return ("", name)
    if not namespace:
        message = f"an empty namespace may not be set for {resource.plural}"
        raise bad_request(message)
    return (namespace, name)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    items: list[JsonObject]
    resource_version: str


class Reads:
    """The reading half of the registry."""

    def __init__(self, store: Store, version: Version) -> None:
        self._store = store
        self.version = version
        self._snapshots: dict[str, _Snapshot] = {}

    @property
    def resource_version(self) -> str:
        """Return the newest revision of the whole store."""
        return str(self._store.revision)

    def get(self, plural: str, name: str, namespace: str | None) -> JsonObject:
        """Return a copy of one object or raise 404."""
        resource = resource_type(plural)
        return copy_json(self.stored(resource, key_of(resource, name, namespace)))  # type: ignore[no-any-return]

    def served(self, plural: str) -> ResourceType:
        """Return the row of *plural*; 404 when this release does not serve it."""
        resource = resource_type(plural)
        if resource.since > self.version.number:
            raise no_such_path()
        return resource

    def stored(self, resource: ResourceType, key: Key) -> JsonObject:
        """Return the stored object itself or raise 404."""
        found = self._store.get(resource.plural, key)
        if found is None:
            raise not_found(resource.qualified, key[1])
        return found

    def list(self, plural: str, namespace: str | None, listing: Listing) -> Page:
        """Return a page of copies; later pages show the state of the first."""
        resource_type(plural)
        chosen = self._selection(plural, namespace, listing)
        check_list_revision(listing.resource_version, self._store)
        if listing.continue_token:
            snapshot = self._continued(listing.continue_token)
        else:
            items = self._store.select(plural, chosen)
            snapshot = _Snapshot(items, str(self._store.revision))
        limit = listing.limit or len(snapshot.items)
        head, tail = snapshot.items[:limit], snapshot.items[limit:]
        return Page(
            items=[copy_json(item) for item in head],
            resource_version=snapshot.resource_version,
            continue_token=self._remember(tail, snapshot.resource_version),
            remaining=len(tail) if tail and not chosen.selective else None,
        )

    def watcher(
        self, plural: str, namespace: str | None, listing: Listing, resource_version: str
    ) -> Watcher:
        """Return a watcher of the selected objects; 410 when the history is too short."""
        resource_type(plural)
        chosen = self._selection(plural, namespace, listing)
        revision = parse_revision(resource_version, self._store)
        return Watcher(self._store, plural, chosen, revision)

    async def watch(
        self, plural: str, namespace: str | None, listing: Listing, resource_version: str
    ) -> AsyncIterator[tuple[str, JsonObject]]:
        """Yield copies of what happens; see `Api.watch`."""
        watcher = self.watcher(plural, namespace, listing, resource_version)
        try:
            while not watcher.ended:
                for kind, obj in watcher.take():
                    yield kind, copy_json(obj)
                await watcher.wait()
        finally:
            watcher.close()

    def compact(self) -> None:
        """Forget all histories and all unfinished lists."""
        self._store.compact()
        self._snapshots.clear()

    def _selection(self, plural: str, namespace: str | None, listing: Listing) -> Selection:
        return selection(
            plural, namespace, listing.labels, listing.fields, minor=self.version.number
        )

    def _continued(self, token: str) -> _Snapshot:
        if len(token) != _TOKEN_LENGTH:
            raise bad_request("invalid continue token: continue key is not valid")
        snapshot = self._snapshots.get(token)
        if snapshot is None:
            raise GoneError(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        return snapshot

    def _remember(self, items: builtins.list[JsonObject], resource_version: str) -> str:
        if not items:
            return ""
        token = secrets.token_urlsafe(16)
        self._snapshots[token] = _Snapshot(items, resource_version)
        while len(self._snapshots) > _SNAPSHOTS_MAX:
            del self._snapshots[next(iter(self._snapshots))]
        return token
