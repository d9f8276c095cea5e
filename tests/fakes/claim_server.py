"""An API server that knows nothing but the claims that a test puts into it."""

from contextlib import ExitStack
from typing import Any, Self

from kube.client import Client
from kube.config import ClientConfig
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

_PREFIX = "/apis/resource.k8s.io/v1/namespaces/"


class ClaimServer:
    """Serves *claims*, keyed `namespace/name`, over HTTP; use it in `with`."""

    def __init__(self, *claims: dict[str, Any]) -> None:
        self.claims: dict[str, dict[str, Any] | bytes] = {}
        self.answer_status: int | None = None
        """What to answer instead of claims, as a server in trouble does."""
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
        namespace, _, rest = request.path.removeprefix(_PREFIX).partition("/")
        found = self.claims.get(f"{namespace}/{rest.removeprefix('resourceclaims/')}")
        if found is None:
            exchange.status(404, "NotFound", "no such claim")
        elif isinstance(found, bytes):
            exchange.send(200, found)
        else:
            exchange.json(found)
