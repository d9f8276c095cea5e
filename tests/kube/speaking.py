"""A server of some versions of `resource.k8s.io`, and a client that speaks with it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kube.config import ClientConfig
from kube.draversions import ApiVersionChoice, VersionedClient
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

GROUP = "/apis/resource.k8s.io"
DEVICE = {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-0"}}}
OLD_DEVICE = {"name": "gpu-0", "basic": {"attributes": {"uuid": {"string": "GPU-0"}}}}


def a_slice(version: str, device: dict[str, Any]) -> dict[str, Any]:
    """Build a slice of *version* with one device."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"devices": [device]},
    }


SLICE = a_slice("v1", DEVICE)
OLDER = {"v1beta2": a_slice("v1beta2", DEVICE), "v1beta1": a_slice("v1beta1", OLD_DEVICE)}


class DraServer:
    """Serves the group in some *versions*; `answer` says what is at the paths of these."""

    def __init__(self, *versions: str) -> None:
        self.versions = list(versions)
        self.claimed: list[str] | None = None
        """Versions that the group's document names, when these are others."""
        self.trouble: int | None = None
        """What the group's document is answered with instead."""
        self.answer: Callable[[Request, Exchange], None] = lambda request, exchange: exchange.json(
            request.json() if request.body else {"metadata": {"resourceVersion": "1"}, "items": []}
        )
        self.server = ScriptedServer(self._script)

    def _script(self, request: Request, exchange: Exchange) -> None:
        if request.path == GROUP:
            self._group(exchange)
        elif request.path.startswith(f"{GROUP}/"):
            version = request.path.removeprefix(f"{GROUP}/").partition("/")[0]
            if version in self.versions:
                self.answer(request, exchange)
            else:
                self._unserved(exchange)
        else:
            exchange.json({"kind": "Node"})

    def _group(self, exchange: Exchange) -> None:
        named = self.versions if self.claimed is None else self.claimed
        if self.trouble is not None:
            exchange.status(self.trouble, "Trouble")
        elif not named:
            self._unserved(exchange)
        else:
            exchange.json({"kind": "APIGroup", "versions": [{"version": each} for each in named]})

    def _unserved(self, exchange: Exchange) -> None:
        # The API server's own words, for a path of a group that it knows and of one that it lacks.
        if self.versions:
            exchange.status(404, "NotFound", "the server could not find the requested resource")
        else:
            plain = {"Content-Type": "text/plain; charset=utf-8"}
            exchange.send(404, b"404 page not found\n", plain)

    def asked(self) -> list[tuple[str, str]]:
        """Return method and path, without the group's, of each request so far."""
        return [
            (each.method, each.path.removeprefix(GROUP).removeprefix("/"))
            for each in self.server.requests
        ]


@contextmanager
def speaking(
    server: DraServer,
    choice: ApiVersionChoice = "auto",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[VersionedClient, DraServer]]:
    """Run *server* with a client for it."""
    with server.server:
        config = ClientConfig(host=server.server.url)
        client = VersionedClient(config, user_agent="test", api_version=choice, clock=clock)
        try:
            yield client, server
        finally:
            client.close()


class Clock:
    """Time as a test wants it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s
