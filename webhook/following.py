"""The objects of one kind as they are now, found by namespace.

A reflector's own copy is one map over all namespaces, and a review asks for one namespace.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from kube.client import Client
from kube.objects import JsonObject
from kube.reflector import Change, Pace, Reflector

T = TypeVar("T")

PACE = Pace(missing_wait_s=60.0)


class NamespaceIndex(Generic[T]):
    """Objects by namespace and name; one thread changes it, any may read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[str, dict[str, T]] = {}

    def take(self, change: Change[T]) -> None:
        """Follow *change*."""
        namespace, name = change.key
        with self._lock:
            if change.new is not None:
                self._items.setdefault(namespace, {})[name] = change.new
                return
            found = self._items.get(namespace, {})
            found.pop(name, None)
            if not found:
                self._items.pop(namespace, None)

    def get(self, namespace: str, name: str) -> T | None:
        """Return one object."""
        with self._lock:
            return self._items.get(namespace, {}).get(name)

    def of(self, namespace: str) -> tuple[T, ...]:
        """Return those of *namespace* as of one moment."""
        with self._lock:
            return tuple(self._items.get(namespace, {}).values())

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have any."""
        with self._lock:
            return frozenset(self._items)


class Following(Generic[T]):
    """A reflector and its index; *told* is called with the namespace of each change."""

    def __init__(  # noqa: PLR0913 - what to read, and whom to tell
        self,
        client: Client,
        path: str,
        *,
        decode: Callable[[JsonObject], T],
        told: Callable[[str], None],
        params: Mapping[str, str] | None = None,
        connected: Callable[[], None] | None = None,
        pace: Pace = PACE,
    ) -> None:
        """Prepare; *connected* is called when a watch is open that does not go on with one."""
        self.items: NamespaceIndex[T] = NamespaceIndex()
        self._told = told
        self._reflector = Reflector(
            client,
            path,
            params=params or {},
            decode=decode,
            on_change=self._take,
            on_connected=connected,
            pace=pace,
        )

    def start(self) -> None:
        """Begin to read."""
        self._reflector.start()

    def stop(self) -> None:
        """End."""
        self._reflector.stop()

    def is_synced(self) -> bool:
        """Tell whether the first list was read in full."""
        return self._reflector.wait_synced(0)

    def _take(self, change: Change[T]) -> None:
        self.items.take(change)
        self._told(change.key.namespace or change.key.name)
