"""A real HTTP server whose answers a test writes down, for what a well-behaved one never does.

It keeps connections alive, records every request and can stream, stall, or cut a connection in
the middle of an answer.
"""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    peer: tuple[str, int]

    def json(self) -> Any:
        """Decode the body."""
        return json.loads(self.body)


class Exchange:
    """How a script answers one request."""

    def __init__(self, handler: "_Handler") -> None:
        self._handler = handler

    def send(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        length: bool = True,
    ) -> None:
        """Answer in one piece; without *length* the connection's end is the body's."""
        extra = {"Content-Length": str(len(body))} if length else {"Connection": "close"}
        self._begin(status, extra | (headers or {}))
        self._handler.wfile.write(body)

    def json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer with *value*."""
        self.send(
            status,
            json.dumps(value).encode(),
            {"Content-Type": "application/json"} | (headers or {}),
        )

    def status(self, code: int, reason: str, message: str = "", **details: Any) -> None:
        """Answer with a `Status` object as the API server does."""
        self.json(status(code, reason, message, **details), code)

    def stream(self) -> None:
        """Begin a chunked answer."""
        self._begin(200, {"Transfer-Encoding": "chunked"})

    def chunk(self, content: bytes) -> None:
        """Send one piece of it."""
        self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
        self._handler.wfile.flush()

    def line(self, value: Any) -> None:
        """Send one JSON line of it."""
        self.chunk(json.dumps(value).encode() + b"\n")

    def end(self) -> None:
        """End it properly."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close the connection here and now."""
        self._handler.close_connection = True
        with suppress(OSError):
            self._handler.connection.shutdown(socket.SHUT_RDWR)

    def hold(self, timeout_s: float = 20.0) -> None:
        """Say nothing until the server stops or the client goes away."""
        self._handler.connection.settimeout(0.02)
        for _ in range(int(timeout_s / 0.02)):
            if self._handler.server.stopping.is_set():
                break
            try:
                if not self._handler.connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.cut()

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()
        self._handler.wfile.flush()


Script = Callable[[Request, Exchange], None]


def status(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    """Build a `Status` object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
        "details": details,
    }


class ScriptedServer:
    """Runs *script* for each request, one thread a connection; use it in `with`."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.requests: list[Request] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.stopping.set()
        self._server.shutdown()
        self._server.cut_all()
        self._server.server_close()
        self._thread.join()

    def cut_connections(self) -> None:
        """Break every connection that is open."""
        self._server.cut_all()

    @property
    def connections(self) -> int:
        """How many connections brought requests."""
        return len({request.peer for request in self.requests})


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    owner: ScriptedServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.stopping = threading.Event()
        self._sockets: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._sockets.discard(request)
        super().shutdown_request(request)

    def cut_all(self) -> None:
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that hang up are part of the scripts."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        request = Request(
            method=self.command,
            path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers=dict(self.headers),
            body=self.rfile.read(int(self.headers.get("Content-Length", 0))),
            peer=self.client_address,
        )
        self.server.owner.requests.append(request)
        self.server.owner.script(request, Exchange(self))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - names upstream

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name upstream
        """Keep the output of tests clean."""
