"""Objects, their history and one revision counter, as etcd and the watch cache keep them.

Stored objects are never changed in place: a write puts a new object, so that lists, histories
and snapshots may share them. Every resource has a bounded history; who asks for an older
revision has to list again (410), as after a compaction of etcd.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.apiserver.errors import GoneError

if TYPE_CHECKING:
    import asyncio

    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.selectors import Selection

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


@dataclass(frozen=True, slots=True)
class Change:
    """One write: *before* is None for a creation, *after* is the object as last seen."""

    revision: int
    type: str
    before: JsonObject | None
    after: JsonObject


class History:
    """The changes of one resource; a watcher keeps its place as a running number."""

    def __init__(self, length: int) -> None:
        self._changes: collections.deque[Change] = collections.deque()
        self._length = length
        self._first = 0
        self._floor = 0
        self._listeners: set[asyncio.Event] = set()

    @property
    def end(self) -> int:
        """Return the place behind the newest change."""
        return self._first + len(self._changes)

    def append(self, change: Change) -> None:
        """Add the newest change and wake all who wait for one."""
        self._changes.append(change)
        if len(self._changes) > self._length:
            self._floor = self._changes.popleft().revision
            self._first += 1
        for listener in self._listeners:
            listener.set()

    def compact(self, revision: int) -> None:
        """Forget everything: a watch may start at *revision* or later only."""
        self._first = self.end
        self._changes.clear()
        self._floor = revision

    def place_after(self, revision: int) -> int:
        """Return the place of the first change newer than *revision*."""
        if revision < self._floor:
            message = f"too old resource version: {revision} ({self._floor})"
            raise GoneError(message)
        older = sum(1 for change in self._changes if change.revision <= revision)
        return self._first + older

    def changes_from(self, place: int) -> list[Change]:
        """Return the changes from *place* on; `GoneError` when some are lost."""
        if place < self._first:
            raise GoneError("too old resource version: the watcher was too slow")
        return [self._changes[index] for index in range(place - self._first, len(self._changes))]

    def listen(self, event: asyncio.Event) -> None:
        """Set *event* at every change from now on."""
        self._listeners.add(event)

    def forget(self, event: asyncio.Event) -> None:
        """Undo `listen`."""
        self._listeners.discard(event)


class Store:
    """All objects of one cluster."""

    def __init__(self, history_length: int) -> None:
        self.revision = 1
        self._history_length = history_length
        self._objects: dict[str, dict[Key, JsonObject]] = {}
        self._histories: dict[str, History] = {}

    def get(self, plural: str, key: Key) -> JsonObject | None:
        """Return the stored object; not to be changed."""
        return self._objects.get(plural, {}).get(key)

    def select(self, plural: str, selection: Selection) -> list[JsonObject]:
        """Return the selected objects in the order of namespace and name."""
        objects = self._objects.get(plural, {})
        return [objects[key] for key in sorted(objects) if selection.accepts(objects[key])]

    def history(self, plural: str) -> History:
        """Return the history of one resource."""
        return self._histories.setdefault(plural, History(self._history_length))

    def put(self, plural: str, key: Key, obj: JsonObject) -> JsonObject:
        """Store *obj* under a new revision and return what is stored."""
        objects = self._objects.setdefault(plural, {})
        before = objects.get(key)
        stored = self._stamped(obj)
        objects[key] = stored
        kind = "ADDED" if before is None else "MODIFIED"
        self.history(plural).append(Change(self.revision, kind, before, stored))
        return stored

    def remove(self, plural: str, key: Key, last: JsonObject) -> JsonObject:
        """Remove an object; watchers see it as *last*, with the revision of the removal."""
        before = self._objects[plural].pop(key)
        stored = self._stamped(last)
        self.history(plural).append(Change(self.revision, "DELETED", before, stored))
        return stored

    def compact(self) -> None:
        """Drop all histories: every watch from an older revision is answered with 410."""
        for history in self._histories.values():
            history.compact(self.revision)

    def _stamped(self, obj: JsonObject) -> JsonObject:
        self.revision += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
