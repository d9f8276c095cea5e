"""One watch: the changes of a resource from a revision on, through a selection.

An object that stops being selected is DELETED for this watcher and one that starts is ADDED,
whatever really happened to it (apiserver: pkg/storage/cacher/cache_watcher.go).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sim.apiserver.errors import Cause, StatusError, bad_request

if TYPE_CHECKING:
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.selectors import Selection
    from sim.apiserver.storage import Change, Store

WatchEvent = tuple[str, "JsonObject"]


class Watcher:
    """A reader of one history; close it, or it is woken for ever."""

    def __init__(self, store: Store, plural: str, selection: Selection, revision: int) -> None:
        self._selection = selection
        self._history = store.history(plural)
        self._wake = asyncio.Event()
        self._initial: list[WatchEvent] = []
        self.ended = False
        if revision == 0:
            self._place = self._history.end
            self._initial = [("ADDED", obj) for obj in store.select(plural, selection)]
        else:
            self._place = self._history.place_after(revision)
        self._history.listen(self._wake)

    def take(self) -> list[WatchEvent]:
        """Return what has happened since the last call; `GoneError` when too slow for it."""
        events, self._initial = self._initial, []
        changes = self._history.changes_from(self._place)
        self._place += len(changes)
        for change in changes:
            event = self._seen(change)
            if event is not None:
                events.append(event)
        return events

    async def wait(self) -> None:
        """Wait for a change or for `end`."""
        await self._wake.wait()
        self._wake.clear()

    def end(self) -> None:
        """Let the reader know that nothing more will come."""
        self.ended = True
        self._wake.set()

    def close(self) -> None:
        """Stop listening."""
        self._history.forget(self._wake)

    def _seen(self, change: Change) -> WatchEvent | None:
        before, after = change.before, change.after
        matched = before is not None and self._selection.accepts(before)
        matches = change.type != "DELETED" and self._selection.accepts(after)
        if matches:
            return ("MODIFIED" if matched else "ADDED", after)
        if not matched or before is None:
            return None
        if change.type == "DELETED":
            return ("DELETED", after)
        # The watcher sees what it knew, under the version of the change.
        version = after["metadata"]["resourceVersion"]
        known = {**before, "metadata": {**before["metadata"], "resourceVersion": version}}
        return ("DELETED", known)


def parse_revision(text: str, store: Store) -> int:
    """Return the number in a resourceVersion; empty and `0` mean «whatever is there now»."""
    if not text.isdigit() and text:
        message = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise StatusError(500, "", f'resourceVersion: Invalid value: "{text}": {message}')
    revision = int(text or "0")
    if revision > store.revision:
        raise _too_new(revision, store.revision)
    return revision


def check_list_revision(text: str, store: Store) -> None:
    """Check the version that a list must not be older than; the list shows the newest state."""
    if text and not text.isdigit():
        message = (
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
        raise bad_request(message)
    if int(text or "0") > store.revision:
        raise _too_new(int(text), store.revision)


def _too_new(revision: int, newest: int) -> StatusError:
    message = f"Timeout: Too large resource version: {revision}, current: {newest}"
    why = Cause(reason="ResourceVersionTooLarge", field="", message="Too large resource version")
    error = StatusError(504, "Timeout", message, causes=(why,))
    error.retry_after_s = 1
    return error
