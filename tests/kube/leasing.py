"""A server that keeps Leases, slow and forgetful as a test wants it, and candidates for one."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kube.client import Client
from kube.config import ClientConfig
from kube.lease import Candidate, identity_of
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

NAME = "gpuslice-webhook"
PATH = f"/apis/coordination.k8s.io/v1/namespaces/ns/leases/{NAME}"


@dataclass
class World:
    """The true time, and one Lease."""

    now_s: float = 0.0
    lease: dict[str, Any] | None = None
    version: int = 0
    before: Callable[[], None] = field(default=lambda: None)
    """What happens between the sending of a request and its effect."""
    after: Callable[[], None] = field(default=lambda: None)
    """What happens between its effect and the arrival of the answer."""
    reachable: bool = True
    answers: bool = True
    """Whether an answer arrives."""

    def __call__(self, request: Request, exchange: Exchange) -> None:
        """Answer *request* as the API server does."""
        if not self.reachable:
            exchange.cut()
            return
        self.before()
        code, answer = self._act(request)
        self.after()
        if not self.answers:
            exchange.cut()
        elif code >= 400:
            exchange.status(code, answer["reason"])
        else:
            exchange.json(answer, code)

    def _act(self, request: Request) -> tuple[int, dict[str, Any]]:
        if request.method == "POST":
            if self.lease is not None:
                return 409, {"reason": "AlreadyExists"}
            return 201, self._keep(json.loads(request.body))
        if self.lease is None:
            return 404, {"reason": "NotFound"}
        if request.method == "GET":
            return 200, self.lease
        sent = json.loads(request.body)
        if sent["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return 409, {"reason": "Conflict"}
        return 200, self._keep(sent)

    def _keep(self, lease: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = lease["metadata"] | {"resourceVersion": str(self.version)}
        self.lease = lease | {"metadata": metadata}
        return self.lease

    @property
    def holder(self) -> str:
        """Who holds the Lease, by the name before the underscore."""
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"]).partition("_")[0]


@contextmanager
def keeping(world: World) -> Iterator[Client]:
    """Serve *world* and return a client."""
    with ScriptedServer(world) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test", timeout_s=5)
        try:
            yield client
        finally:
            client.close()


def candidate(
    client: Client, world: World, name: str, *, offset_s: float = 0.0, rate: float = 1.0
) -> Candidate:
    """Return a candidate whose clock is *offset_s* ahead of the true time and goes at *rate*."""
    return Candidate(
        client,
        namespace="ns",
        name=NAME,
        identity=identity_of(name, f"{name}:8443"),
        clock=lambda: offset_s + rate * world.now_s,
    )
