"""An API server that knows nothing but the claims that a test puts into it, and a node."""

import json
from contextlib import ExitStack
from typing import Any, Self

from kube.client import Client
from kube.config import ClientConfig
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

_PREFIX = "/apis/resource.k8s.io/v1/namespaces/"
_ALL = "/apis/resource.k8s.io/v1/resourceclaims"
_NODE = "/api/v1/nodes/"
_PAGE = 2
"""Pages are shorter than asked for, as a server may make them."""


class ClaimServer:
    """Serves *claims*, keyed `namespace/name`, over HTTP; use it in `with`."""

    def __init__(self, *claims: dict[str, Any]) -> None:
        self.claims: dict[str, dict[str, Any] | bytes] = {}
        self.answer_status: int | None = None
        """What to answer instead of claims, as a server in trouble does."""
        self.events: list[dict[str, Any]] = []
        for claim in claims:
            self.put(claim)
        self._running = ExitStack()
        self._server = ScriptedServer(self._answer)
        self.client = Client(
            ClientConfig(host=self._server.url), user_agent="gpuslice-test", timeout_s=5.0
        )

    def put(self, claim: dict[str, Any]) -> None:
        """Add or replace *claim*."""
        metadata = claim["metadata"]
        self.claims[f"{metadata['namespace']}/{metadata['name']}"] = claim

    def __enter__(self) -> Self:
        self._running.enter_context(self._server)
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()
        self._running.close()

    @property
    def request_count(self) -> int:
        """How many requests have come."""
        return len(self._server.requests)

    def _answer(self, request: Request, exchange: Exchange) -> None:
        if self.answer_status is not None:
            exchange.status(self.answer_status, "Trouble", "told to")
            return
        if request.path == _ALL:
            self._list(int(request.query.get("continue", "0")), exchange)
            return
        if request.path.startswith(_NODE):
            name = request.path.removeprefix(_NODE)
            exchange.json({"metadata": {"name": name, "uid": f"uid of {name}"}})
            return
        if request.path.endswith("/events"):
            self.events.append(json.loads(request.body))
            exchange.json(json.loads(request.body), 201)
            return
        namespace, _, rest = request.path.removeprefix(_PREFIX).partition("/")
        found = self.claims.get(f"{namespace}/{rest.removeprefix('resourceclaims/')}")
        if found is None:
            exchange.status(404, "NotFound", "no such claim")
        elif isinstance(found, bytes):
            exchange.send(200, found)
        else:
            exchange.json(found)

    def _list(self, start: int, exchange: Exchange) -> None:
        items = [
            json.loads(each) if isinstance(each, bytes) else each for each in self.claims.values()
        ]
        end = start + _PAGE
        metadata = {"resourceVersion": "1"} | ({"continue": str(end)} if end < len(items) else {})
        exchange.json({"items": items[start:end], "metadata": metadata})
