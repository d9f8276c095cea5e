"""A way to the API server on which answers get lost after the server has acted."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

from tests.fakes.scripted_server import Exchange, Request, ScriptedServer


class Way:
    """Hands requests on; loses the next answers of those that a test names."""

    def __init__(self, url: str) -> None:
        self._server = urlsplit(url)
        self.lost: list[tuple[str, str]] = []
        """Method and end of the path, each once."""

    def __call__(self, request: Request, exchange: Exchange) -> None:
        """Hand one request on."""
        connection = HTTPConnection(self._server.hostname or "", self._server.port, timeout=30)
        try:
            query = f"?{urlencode(request.query)}" if request.query else ""
            kept = ("authorization", "content-type", "accept")
            headers = {key: value for key, value in request.headers.items() if key.lower() in kept}
            connection.request(request.method, request.path + query, request.body, headers)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
        finally:
            connection.close()
        for each in self.lost:
            method, end = each
            if request.method == method and request.path.endswith(end):
                self.lost.remove(each)
                exchange.cut()
                return
        exchange.send(status, body, {"Content-Type": "application/json"})


@contextmanager
def forgetful(url: str) -> Iterator[tuple[Way, str]]:
    """Open a way to *url* and return it with its own address."""
    way = Way(url)
    with ScriptedServer(way) as server:
        yield way, server.url
