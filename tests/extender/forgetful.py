"""A way to the API server on which requests and answers get lost, or arrive late."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Final
from urllib.parse import urlencode, urlsplit

from tests.fakes.scripted_server import Exchange, Request, ScriptedServer

LOST: Final = "the answer is lost"
REFUSED: Final = "the request is lost"
LATE: Final = "the request arrives when everybody has given up"
NOTHING: Final = "nothing happens"
Trouble = str | int
"""One of these, or the status of a failure that has no effect."""

_KEPT: Final = ("authorization", "content-type", "accept")
_REASONS: Final = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 429: "TooManyRequests"}


class Way:
    """Hands requests on, but for those of which a test says what becomes of them."""

    def __init__(self, url: str) -> None:
        self._server = urlsplit(url)
        self.plan: list[tuple[str, str, Trouble]] = []
        """Method, end of the path and what happens, each once."""
        self.before: Callable[[Request], None] = lambda _: None
        """Called with each request before anything becomes of it."""
        self.chance: Callable[[Request], Trouble | None] = lambda _: None
        """Says what becomes of requests of which the plan says nothing."""
        self._late: list[Request] = []

    def __call__(self, request: Request, exchange: Exchange) -> None:
        """Hand one request on."""
        self.before(request)
        trouble = self._trouble(request)
        if isinstance(trouble, int):
            exchange.status(trouble, _REASONS.get(trouble, "InternalError"))
            return
        if trouble in {REFUSED, LATE}:
            self._late += [request] if trouble == LATE else []
            exchange.cut()
            return
        code, body = self._handed_on(request)
        if trouble == LOST:
            exchange.cut()
        else:
            exchange.send(code, body, {"Content-Type": "application/json"})

    def deliver(self) -> list[int]:
        """Hand on what was late, and return the statuses that nobody hears."""
        late, self._late = self._late, []
        return [self._handed_on(each)[0] for each in late]

    def _trouble(self, request: Request) -> Trouble | None:
        for each in self.plan:
            method, end, trouble = each
            if request.method == method and request.path.endswith(end):
                self.plan.remove(each)
                return trouble
        return self.chance(request)

    def _handed_on(self, request: Request) -> tuple[int, bytes]:
        connection = HTTPConnection(self._server.hostname or "", self._server.port, timeout=30)
        try:
            query = f"?{urlencode(request.query)}" if request.query else ""
            headers = {key: value for key, value in request.headers.items() if key.lower() in _KEPT}
            connection.request(request.method, request.path + query, request.body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def forgetful(url: str) -> Iterator[tuple[Way, str]]:
    """Open a way to *url* and return it with its own address."""
    way = Way(url)
    with ScriptedServer(way) as server:
        yield way, server.url
