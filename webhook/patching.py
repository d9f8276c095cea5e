"""JSON patches (RFC 6902) that touch nothing but what they mean to.

The API server applies them to its own copy of the object, so a field that this program does not
know keeps its bytes. A removal is preceded by a `test`: if another webhook changed the value in
between, the whole patch fails rather than taking away what nobody looked at.
"""

from collections.abc import Iterable
from typing import Any, Final

from kube.objects import JsonObject

Step = str | int

_END: Final = "-"


def pointer(*path: Step) -> str:
    """Return the JSON pointer (RFC 6901) of *path*."""
    return "/" + "/".join([_escaped(step) for step in path]) if path else ""


def _escaped(step: Step) -> str:
    return str(step).replace("~", "~0").replace("/", "~1")


class Patch:
    """Collects the operations for one object, which it reads and never changes."""

    def __init__(self, item: JsonObject) -> None:
        self._item = item
        self._operations: list[JsonObject] = []
        self._made: set[tuple[Step, ...]] = set()

    @property
    def operations(self) -> tuple[JsonObject, ...]:
        """Return what was collected, in order."""
        return tuple(self._operations)

    def add(self, *path: Step, value: Any) -> None:
        """Set the field at *path*, making the objects around it where they are missing."""
        self._make_parents(path)
        self._operations.append({"op": "add", "path": pointer(*path), "value": value})

    def append(self, *path: Step, value: Any) -> None:
        """Append *value* to the list at *path*, making it where it is missing."""
        if isinstance(self._at(path), list) or path in self._made:
            self._operations.append({"op": "add", "path": pointer(*path, _END), "value": value})
            return
        self.add(*path, value=[value])
        self._made.add(path)

    def remove(self, *path: Step, keys: Iterable[str]) -> None:
        """Remove *keys* of the object at *path*, if they still are what was looked at."""
        holder, above = self._at(path), pointer(*path)
        for key in keys:
            found = holder.get(key) if isinstance(holder, dict) else None
            at = f"{above}/{_escaped(key)}"
            self._operations.append({"op": "test", "path": at, "value": found})
            self._operations.append({"op": "remove", "path": at})

    def replace(self, *path: Step, value: Any) -> None:
        """Put *value* at *path*, if there still is what was looked at."""
        found = self._at(path)
        at = pointer(*path)
        self._operations.append({"op": "test", "path": at, "value": found})
        self._operations.append({"op": "replace", "path": at, "value": value})

    def _make_parents(self, path: tuple[Step, ...]) -> None:
        found: Any = self._item
        for length, step in enumerate(path[:-1], start=1):
            found = _below(found, step)
            parent = path[:length]
            if found is None and parent not in self._made:
                self._operations.append({"op": "add", "path": pointer(*parent), "value": {}})
                self._made.add(parent)

    def _at(self, path: tuple[Step, ...]) -> Any:
        found: Any = self._item
        for step in path:
            found = _below(found, step)
        return found


def _below(holder: Any, step: Step) -> Any:
    if isinstance(holder, dict):
        return holder.get(step)
    if isinstance(holder, list) and isinstance(step, int) and step < len(holder):
        return holder[step]
    return None
