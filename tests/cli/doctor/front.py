"""A server before the simulated API server: adds kinds that it lacks, refuses, tells logs.

What it does not know is passed on, so that versions, gates, dry runs and webhooks are those of the
simulation.
"""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import yaml

from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

Json = dict[str, Any]
_ATTEMPTS = {"GET": "get", "POST": "create", "PUT": "update", "DELETE": "delete"}


@dataclass(slots=True)
class Front:
    """The server; change its fields while it runs."""

    upstream: str
    token: str
    url: str = ""
    items: dict[str, list[Json]] = field(default_factory=dict)
    """Objects by the path of their collection; with a namespace in it or without."""
    texts: dict[str, str] = field(default_factory=dict)
    """Plain answers by path."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Methods, empty for each, and parts of paths that are answered with 403."""
    missing: list[str] = field(default_factory=list)
    """Beginnings of paths that are not served."""
    log_of: Callable[[str], str] | None = None
    """Returns a pod's log by its name."""
    requests: list[tuple[str, str]] = field(default_factory=list)

    def serve(self, collection: str, *objects: Json) -> Self:
        """Add *objects* to a collection that the simulation does not have."""
        self.items.setdefault(collection, []).extend(objects)
        return self

    def answer(self, request: Request, exchange: Exchange) -> None:
        """Answer one request."""
        self.requests.append((request.method, request.path))
        path = request.path
        for method, part in self.refused:
            if method in {"", request.method} and part in path:
                verb = _ATTEMPTS.get(request.method, "patch")
                text = f'user "u" cannot {verb} resource "{path.rpartition("/")[2]}" there'
                exchange.status(403, "Forbidden", text)
                return
        if any(path.startswith(each) for each in self.missing):
            exchange.send(404, b"404 page not found\n", {"Content-Type": "text/plain"})
        elif path in self.texts:
            exchange.send(200, self.texts[path].encode())
        elif path.endswith("/log") and self.log_of is not None:
            exchange.send(200, self.log_of(path.split("/")[-2]).encode())
        elif not self._own(request, exchange):
            self._pass_on(request, exchange)

    def _own(self, request: Request, exchange: Exchange) -> bool:
        collection, _, name = request.path.rpartition("/")
        if request.path in self.items:
            found = _selected(self.items[request.path], request.query.get("labelSelector", ""))
            exchange.json({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": found})
            return True
        if collection not in self.items:
            return False
        for each in self.items[collection]:
            if each["metadata"]["name"] == name:
                exchange.json(each)
                return True
        exchange.status(404, "NotFound", f'things "{name}" not found')
        return True

    def _pass_on(self, request: Request, exchange: Exchange) -> None:
        url = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
        query = f"?{urlencode(request.query)}" if request.query else ""
        kept = ("content-type", "accept", "user-agent")
        headers = {key: text for key, text in request.headers.items() if key.lower() in kept}
        headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(request.method, request.path + query, request.body, headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get("Content-Type", "application/json")
        exchange.send(answer.status, body, {"Content-Type": kind})


def _selected(items: list[Json], selector: str) -> list[Json]:
    wanted = dict(each.split("=", 1) for each in selector.split(",") if each)
    return [
        each for each in items if wanted.items() <= (each["metadata"].get("labels") or {}).items()
    ]


@contextmanager
def fronting(upstream: str, token: str) -> Iterator[Front]:
    """Run a server before *upstream*, whose *token* it shows."""
    front = Front(upstream, token)
    with ScriptedServer(front.answer) as server:
        front.url = server.url
        yield front


def write_kubeconfig(path: Path, url: str) -> Path:
    """Write a kubeconfig for the server at *url*."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    return path


def as_json(text: str) -> Json:
    """Decode what a command has printed."""
    found = json.loads(text)
    assert isinstance(found, dict)
    return found
