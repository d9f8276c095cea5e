"""Keep a copy of the objects at one path and tell of each change: list, then watch, for ever.

What a watch of the API server demands of its reader:

- it ends after `timeoutSeconds` by design and is resumed from the last resource version seen;
- bookmarks carry only such a version, so that a quiet kind does not fall out of etcd's history;
- 410, as a status or as an event, means that the history is gone: list again;
- a list of many objects comes in pages, and a page's token may expire as well;
- a peer that vanished is noticed only by its silence.

The wait between tries ends only with progress (something arrived, or the watch held a while): a
server that takes the watch and drops it at once would be flooded otherwise.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import structlog

from kube.backoff import Backoff
from kube.client import Client
from kube.errors import (
    ApiError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    api_error,
)
from kube.objects import JsonObject, ObjectKey
from kube.paging import pages
from kube.store import Change, ChangeKind, Store, UnwantedError
from kube.watch import Watch

__all__ = ["Change", "ChangeKind", "ObjectKey", "Pace", "Parsing", "Reflector", "UnwantedError"]

log = structlog.get_logger(__name__)

# What an answer that is no list and no event can lead to, besides failures to get one.
_WAITED_OUT = (
    KubeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
)

T = TypeVar("T")

_LIMIT: Final = 200
_JOIN_S: Final = 0.8
_HELD_S: Final = 1.0
_SUSPECT_AFTER: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The times of a reflector; the defaults suit a real server."""

    silence_s: float = 150.0
    """Bookmarks come about once a minute; silence for longer is a dead peer."""
    watch_s: int = 290
    """After which the server is asked to end a watch, made up to half as long again by chance."""
    first_wait_s: float = 0.2
    max_wait_s: float = 30.0
    missing_wait_s: float = 0.0
    """How long to wait at least while the server has no such kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsing:
    """How bytes become objects; a reader of large objects may leave out what it does not look at.

    Both raise `ValueError` for what is no such message. Every object must have its `metadata`, and
    that the name, namespace, UID and resource version.
    """

    page: Callable[[bytes], JsonObject] = json.loads
    """Of a list; `items` may be any iterable."""
    event: Callable[[bytes], JsonObject] = json.loads
    """One line of a watch; errors are read whole."""


class Reflector(Generic[T]):
    """Runs in one thread, which also calls *on_change*, *on_connected* and *on_renewed*."""

    def __init__(  # noqa: PLR0913 - what to read, and whom to tell
        self,
        client: Client,
        path: str,
        *,
        params: Mapping[str, str],
        decode: Callable[[JsonObject], T],
        on_change: Callable[[Change[T]], None] | None = None,
        on_connected: Callable[[], None] | None = None,
        on_renewed: Callable[[], None] | None = None,
        pace: Pace | None = None,
        parsing: Parsing | None = None,
        limit: int = _LIMIT,
        eager: bool = False,
    ) -> None:
        """Prepare; *params* are selectors, *decode* may raise to have an object left out.

        A list is read in pages of *limit* objects. If *eager*, the first is told of while it is
        read, and `items` then returns what was told so far.

        *on_connected* is called when a watch is open that does not follow one which lasted as
        long as it was asked to: the server at the other end may be another one. *on_renewed* is
        called instead when it does follow such a one.
        """
        self._client = client
        self._path = path
        self._params = dict(params)
        self._on_change = on_change
        self._on_connected, self._on_renewed = on_connected, on_renewed
        self._pace = pace or Pace()
        self._parsing, self._limit, self._eager = parsing or Parsing(), limit, eager
        self._store = Store(decode)
        self._backoff = Backoff(self._pace.first_wait_s, self._pace.max_wait_s)
        self._synced = threading.Event()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._open: Watch | None = None
        self._version: str | None = None
        self._progress = False
        self._lasted = False
        self._fruitless = 0
        self._thread = threading.Thread(target=self._run, name=f"reflector {path}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End within a second; a request that hangs is left to its timeout."""
        self._stopped.set()
        with self._lock:
            if self._open is not None:
                self._open.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def wait_synced(self, timeout_s: float) -> bool:
        """Wait until the first list has been told in full and say whether it was."""
        return self._synced.wait(timeout_s)

    def items(self) -> dict[ObjectKey, T]:
        """Return a copy of all objects as of one moment."""
        return self._store.items()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._progress = False
            failure: Exception | None = None
            try:
                self._list_and_watch()
            except _WAITED_OUT as error:
                failure = error
            if self._stopped.is_set():
                return
            if self._progress:
                self._backoff.reset()
                self._fruitless = 0
            if failure is None and self._progress:
                continue
            self._recover(failure)

    def _recover(self, failure: Exception | None) -> None:
        """Wait before the next try, and doubt the version when tries keep failing."""
        wait_s = self._backoff.next_s()
        self._fruitless += 1
        if isinstance(failure, ApiError) and failure.retry_after_s:
            wait_s = max(wait_s, min(failure.retry_after_s, self._pace.max_wait_s))
        if isinstance(failure, NotFoundError):
            wait_s = max(wait_s, self._pace.missing_wait_s)
        if _is_lost(failure) or self._fruitless >= _SUSPECT_AFTER:
            self._version = None
        if failure is not None:
            log.warning(
                "watch failed", path=self._path, error=str(failure), wait_s=round(wait_s, 1)
            )
        self._stopped.wait(wait_s)

    def _list_and_watch(self) -> None:
        if self._version is None:
            self._list()
            self._synced.set()
            self._fruitless = 0
        asked_s = _spread(self._pace.watch_s)
        params = self._params | {
            "resourceVersion": self._version or "",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(asked_s),
        }
        renewed, self._lasted = self._lasted, False
        with self._client.watch(self._path, params, timeout_s=self._pace.silence_s) as watch:
            with self._lock:
                self._open = watch
            began_s = time.monotonic()
            try:
                self._follow(watch, renewed=renewed)
                self._lasted = time.monotonic() - began_s >= asked_s - _HELD_S
            finally:
                with self._lock:
                    self._open = None

    def _follow(self, watch: Watch, *, renewed: bool) -> None:
        opened_s = time.monotonic()
        told = self._on_renewed if renewed else self._on_connected
        if told is not None and not self._stopped.is_set():
            self._call(told)
        # A stop that came before the watch was known has found nothing to close.
        if self._stopped.is_set():
            return
        for line in watch:
            self._take(line)
            self._progress = True
            if self._stopped.is_set():
                return
        self._progress |= time.monotonic() - opened_s >= _HELD_S

    def _list(self) -> None:
        if not self._eager or self._synced.is_set() or len(self._store):
            self._tell(self._store.replace(self._listed()))
            return
        for item in self._listed():
            self._tell(self._store.put(item))

    def _listed(self) -> Iterator[JsonObject]:
        version: str | None = None
        params = self._params | {"limit": str(self._limit)}
        for page in pages(partial(self._client.get, self._path), self._parsing.page, params):
            version = str(page["metadata"]["resourceVersion"])
            yield from page.get("items") or ()
        self._version = version

    def _take(self, line: bytes) -> None:
        event = self._parsing.event(line)
        kind, item = event["type"], event["object"]
        changes: list[Change[T]] = []
        if kind == "ERROR":
            item = json.loads(line)["object"]
            raise api_error(int(item.get("code") or 500), json.dumps(item).encode())
        if kind == "DELETED":
            changes = self._store.drop(item)
        elif kind in {"ADDED", "MODIFIED"}:
            changes = self._store.put(item)
        elif kind != "BOOKMARK":
            message = f"`{kind}` is no type of a watch event"
            raise ValueError(message)
        self._version = str(item["metadata"]["resourceVersion"])
        self._tell(changes)

    def _tell(self, changes: list[Change[T]]) -> None:
        if self._on_change is not None:
            for change in changes:
                self._call(self._on_change, change)

    def _call(self, listener: Callable[..., None], *arguments: Any) -> None:
        try:
            listener(*arguments)
        except Exception:
            log.exception("listener failed", path=self._path)


def _is_lost(failure: Exception | None) -> bool:
    """Tell whether the history from our version on cannot be had any more."""
    passing = (TooManyRequestsError, ServerError)
    return isinstance(failure, ApiError) and not isinstance(failure, passing)


def _spread(seconds: int) -> int:
    return seconds + int(random.uniform(0, seconds / 2))  # noqa: S311 - no secret
