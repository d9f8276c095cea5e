"""The server as a whole: one store behind a port, with switches for tests.

All methods must be called in the loop that runs the server. Its version can be switched at run
time, as when a control plane is upgraded: stored objects stay, the next write meets new rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from sim.apiserver import kubeconfig, versions
from sim.apiserver.access import Access
from sim.apiserver.api import Api
from sim.apiserver.faults import Faults
from sim.apiserver.grants import Grant
from sim.apiserver.http import HttpApi
from sim.apiserver.registry import Registry
from sim.apiserver.requests import Write
from sim.apiserver.storage import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.apiserver.access import RequestRecord
    from sim.apiserver.rules.claims import CheckExpression

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_BODY_MAX_BYTES = 3 * 1024 * 1024


def _accept_expression(_expression: str) -> str | None:
    return None


class ApiServer:
    """A simulated API server; `start` it, use `url` or `api`, `stop` it.

    *check_expression* says what is wrong with a device selector; without it all are accepted.
    """

    def __init__(
        self,
        version: str = "1.37",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        history_length: int = 4096,
        bookmark_interval_s: float = 10.0,
        check_expression: CheckExpression = _accept_expression,
    ) -> None:
        self._host = host
        self._port = port
        store = Store(history_length)
        self._registry = Registry(store, versions.version(version), check_expression)
        self._access = Access()
        self._faults = Faults()
        self._http = HttpApi(self._registry, self._access, self._faults, bookmark_interval_s)
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self.api = Api(self._registry)
        for name in _NAMESPACES:
            self._registry.create("namespaces", {"metadata": {"name": name}}, None, Write())

    @property
    def url(self) -> str:
        """Return the address for clients; known after `start`."""
        return f"http://{self._host}:{self._port}"

    @property
    def requests(self) -> Sequence[RequestRecord]:
        """Return the journal of requests that came over HTTP, oldest first."""
        return tuple(self._access.records)

    async def start(self) -> None:
        """Listen; port 0 takes a free one, which is kept over `pause`."""
        app = web.Application(client_max_size=_BODY_MAX_BYTES)
        app.router.add_route("*", "/{path:.*}", self._http.handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        await self.resume()

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        self._http.streams.drop()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = self._site = None

    async def pause(self) -> None:
        """Be unreachable: refuse connections and break the existing ones."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        self._http.streams.drop()
        server = self._runner.server if self._runner is not None else None
        for connection in server.connections if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    async def resume(self) -> None:
        """Listen again on the same port."""
        if self._runner is None or self._site is not None:
            return
        self._site = web.TCPSite(self._runner, self._host, self._port)
        await self._site.start()
        self._port = self._runner.addresses[0][1]

    def set_version(self, version: str, *, gates: frozenset[str] | None = None) -> None:
        """Act as *version* from now on, such as `1.34`; *gates* replaces its default gates."""
        self._registry.version = versions.version(version, gates=gates)

    def token_for(self, user: str) -> str:
        """Return the bearer token of *user*."""
        return self._access.token_for(user)

    def revoke(self, user: str) -> None:
        """Make the token of *user* invalid."""
        self._access.revoke(user)

    def write_kubeconfig(self, path: Path | str, user: str = "admin") -> None:
        """Write a kubeconfig by which *user* reaches this server."""
        url = self.url + self._access.path_for(user)
        kubeconfig.write(Path(path), url=url, user=user, token=self.token_for(user))

    def grant(self, subject: str, verb: str, resource: str, *, group: str = "") -> None:
        """Let a SubjectAccessReview say that a user or group may do something."""
        self._http.grants.add(Grant(subject=subject, verb=verb, resource=resource, group=group))

    def withdraw(self, subject: str, verb: str, resource: str, *, group: str = "") -> None:
        """Undo `grant`."""
        self._http.grants.take(Grant(subject=subject, verb=verb, resource=resource, group=group))

    def fail_next(self, count: int, status: int, *, verb: str = "", path_part: str = "") -> None:
        """Fail the next *count* HTTP requests, of a verb and part of a path where given."""
        self._faults.fail_next(count, status, verb=verb, path_part=path_part)

    def clear_faults(self) -> None:
        """Forget the failures that were not handed out."""
        self._faults.clear()

    def drop_watches(self) -> None:
        """Break the connections of all open watches."""
        self._http.streams.drop()

    def compact(self) -> None:
        """Forget the history: watches from older revisions get 410."""
        self._registry.compact()
