"""Watches over HTTP: one JSON document a line until the client, the server or time ends it.

A watch that falls out of the history gets an ERROR event with a 410 Status inside a 200
response when it has begun, and a plain 410 before (apiserver: pkg/endpoints/handlers/watch.go;
the real server sends the event in both cases when its cache knows it late).
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError

from sim.apiserver.errors import GoneError
from sim.apiserver.options import flag, number
from sim.apiserver.zeros import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.apiserver import paths
    from sim.apiserver.json_values import JsonObject
    from sim.apiserver.registry import Registry
    from sim.apiserver.requests import Listing
    from sim.apiserver.resources import ResourceType
    from sim.apiserver.watching import Watcher

_DEFAULT_TIMEOUT_S = 1800


class Streams:
    """The open watches of one server."""

    def __init__(self, registry: Registry, bookmark_interval_s: float) -> None:
        self._registry = registry
        self._bookmark_interval_s = bookmark_interval_s
        self._open: dict[Watcher, web.Request] = {}

    async def serve(
        self,
        request: web.Request,
        target: paths.Target,
        listing: Listing,
        note: Callable[[int], None],
    ) -> web.StreamResponse:
        """Answer one watch request from beginning to end."""
        initial = flag(request, "sendInitialEvents")
        revision = "" if initial else request.query.get("resourceVersion", "")
        watcher = self._registry.watcher(
            target.resource.plural, target.namespace, listing, revision
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        self._open[watcher] = request
        try:
            timeout_s = _timeout_s(request)
            note(response.status)
            await response.prepare(request)
            if initial:
                await self._send_initial(response, watcher, target.resource)
            await self._pump(request, response, watcher, target.resource, timeout_s)
            if not watcher.ended:
                await response.write_eof()
        except ClientConnectionResetError:
            pass
        finally:
            watcher.close()
            del self._open[watcher]
        return response

    def drop(self) -> None:
        """Break the connections of all open watches."""
        for watcher, request in self._open.items():
            watcher.end()
            if request.transport is not None:
                request.transport.abort()

    async def _send_initial(
        self, response: web.StreamResponse, watcher: Watcher, resource: ResourceType
    ) -> None:
        """Send what is there and the bookmark that says so: a list in the form of a watch."""
        bookmark = self._bookmark(resource)
        bookmark["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
        lines = [_line(kind, shown(resource.plural, obj)) for kind, obj in watcher.take()]
        await response.write(b"".join([*lines, _line("BOOKMARK", bookmark)]))

    async def _pump(
        self,
        request: web.Request,
        response: web.StreamResponse,
        watcher: Watcher,
        resource: ResourceType,
        timeout_s: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        bookmarks = flag(request, "allowWatchBookmarks")
        next_bookmark = loop.time() + self._bookmark_interval_s
        while not watcher.ended:
            try:
                events = watcher.take()
            except GoneError as error:
                await response.write(_line("ERROR", error.status()))
                return
            if events:
                plural = resource.plural
                lines = (_line(kind, shown(plural, obj)) for kind, obj in events)
                await response.write(b"".join(lines))
            now = loop.time()
            if bookmarks and now >= min(next_bookmark, deadline):
                await response.write(_line("BOOKMARK", self._bookmark(resource)))
                next_bookmark = now + self._bookmark_interval_s
            if now >= deadline:
                return
            wake_at = min(deadline, next_bookmark) if bookmarks else deadline
            await _wait(watcher, wake_at - now)

    def _bookmark(self, resource: ResourceType) -> JsonObject:
        return {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": self._registry.resource_version},
        }


async def _wait(watcher: Watcher, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0.001)):
            await watcher.wait()
    except TimeoutError:
        return


def _line(kind: str, obj: JsonObject) -> bytes:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"


def _timeout_s(request: web.Request) -> float:
    asked_s = number(request, "timeoutSeconds")
    if asked_s:
        return asked_s
    return random.uniform(_DEFAULT_TIMEOUT_S, 2 * _DEFAULT_TIMEOUT_S)  # noqa: S311 - only spread
