"""A way to the API server on which one request, or every one from then on, goes wrong."""

import threading
from enum import StrEnum

import urllib3

from kube.client import Client
from kube.config import ClientConfig
from tests.fakes.api_server import ServerThread
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer


class Fault(StrEnum):
    """What happens to a request."""

    CUT = "cut before the server sees it"
    LOST = "carried out, and the answer is lost"
    NOT_FOUND = "404"
    CONFLICT = "409"
    FAILED = "500"
    KILLED = "the client is killed before the server sees it"
    KILLED_AFTER = "carried out, and the client is killed"


FOR_CLIENTS = [each for each in Fault if not each.name.startswith("KILLED")]
"""What a client lives to see."""


_STATUS = {Fault.NOT_FOUND: "NotFound", Fault.CONFLICT: "Conflict", Fault.FAILED: "InternalError"}


def _do_nothing() -> None:
    """Kill nobody."""


def client_of(url: str, token: str) -> Client:
    """Return a client of the server at *url*."""
    config = ClientConfig(host=url, token=lambda: token)
    return Client(config, user_agent="test", timeout_s=5.0)


class FaultyWay(ScriptedServer):
    """Passes requests on; use it in `with`."""

    def __init__(self, server: ServerThread) -> None:
        super().__init__(self._pass_on)
        self.token = server.call(server.server.token_for, "agent")
        self._target = urllib3.PoolManager()
        self._to = server.server.url
        self._guard = threading.Lock()
        self._fault: Fault | None = None
        self._first = self._left = self.count = 0
        self.kill = _do_nothing
        """Kills the client."""

    def client(self) -> Client:
        """Return a client that goes this way."""
        return client_of(self.url, self.token)

    def break_at(self, number: int, fault: Fault, *, times: int = 1) -> None:
        """Have *fault* befall *times* requests from the one of *number* on, which may be 0."""
        with self._guard:
            self._fault, self._first, self._left, self.count = fault, number, times, 0

    def heal(self) -> None:
        """Have all go well from now on."""
        with self._guard:
            self._fault, self.count = None, 0

    def _pass_on(self, request: Request, exchange: Exchange) -> None:
        with self._guard:
            number, self.count = self.count, self.count + 1
            fault = self._fault if number >= self._first and self._left > 0 else None
            self._left -= fault is not None
        if fault is Fault.KILLED:
            self.kill()
        if fault in {Fault.CUT, Fault.KILLED}:
            exchange.cut()
            return
        if fault is not None and fault in _STATUS:
            exchange.status(int(fault), _STATUS[fault], "injected fault")
            return
        names = ("Authorization", "Content-Type", "Accept")
        headers = {name: request.headers[name] for name in names if name in request.headers}
        answer = self._target.request(
            request.method,
            self._to + request.path,
            fields=request.query or None if request.method == "GET" else None,
            body=request.body if request.method != "GET" else None,
            headers=headers,
        )
        if fault is Fault.KILLED_AFTER:
            self.kill()
        if fault in {Fault.LOST, Fault.KILLED_AFTER}:
            exchange.cut()
            return
        exchange.send(answer.status, answer.data, {"Content-Type": "application/json"})
