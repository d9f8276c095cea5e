"""Clients that never come to the point."""

import contextlib
import ssl
from typing import Any

from kube.connections import HEAD_MAX_BYTES, BoundedProtocol
from tests.webhook.serving import Connection, review_body, served


class Quick(BoundedProtocol):
    """Waits for a head as long as a test does."""

    head_max_s = 0.3


def socket_of(connection: Connection) -> ssl.SSLSocket:
    """Return what it writes to."""
    assert isinstance(connection.http.sock, ssl.SSLSocket)
    return connection.http.sock


def flood(connection: Connection, begin: bytes) -> tuple[int, bytes]:
    """Send *begin* and a header without end; return how much was taken, and the answer."""
    stream, sent, received = socket_of(connection), 0, b""
    with contextlib.suppress(OSError):
        stream.sendall(begin)
        while sent < 100 * HEAD_MAX_BYTES:
            stream.sendall(b"x" * 1000)
            sent += 1000
    with contextlib.suppress(OSError):
        received = stream.recv(1000)
    return sent, received


def test_a_head_without_end_is_cut_off() -> None:
    """A client cannot fill the memory with one header, be it its first request or a later one."""
    with served() as server:
        with server.connect() as connection:
            sent, _ = flood(connection, b"POST /webhook HTTP/1.1\r\nX: ")
            assert sent < 50 * HEAD_MAX_BYTES
        with server.connect() as connection:
            assert connection.post("/webhook", review_body()).status == 200
            sent, _ = flood(connection, b"POST /" + b"w" * HEAD_MAX_BYTES)
            assert sent < 50 * HEAD_MAX_BYTES
        assert server.post("/webhook", review_body()).status == 200


def test_a_long_head_that_ends_is_taken() -> None:
    """What comes after it does not count to it."""
    header = {"X-Long": "x" * (HEAD_MAX_BYTES - 1000)}
    with served() as server, server.connect() as connection:
        for _ in range(3):
            body = review_body(padding="x" * 200_000)
            assert connection.post("/webhook", body, header).status == 200


def ends(connection: Connection) -> bool:
    """Tell whether the server ends it without a word."""
    return socket_of(connection).recv(1) == b""


def test_a_client_that_says_nothing_is_not_waited_for() -> None:
    """Neither before the first request nor in the middle of any."""
    with served(protocol=Quick) as server:
        with server.connect() as connection:
            assert ends(connection)
        with server.connect() as connection:
            socket_of(connection).sendall(b"POST /web")
            assert ends(connection)
        with server.connect() as connection:
            assert connection.post("/webhook", review_body()).status == 200
            socket_of(connection).sendall(b"POST /web")
            assert ends(connection)


def test_a_client_that_asks_slowly_keeps_its_connection() -> None:
    """Time between requests is not time that a request takes to begin."""
    waits: list[Any] = []

    class Noting(Quick):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            waits.append(self._head_timer)

    with served(protocol=Noting) as server, server.connect() as connection:
        for _ in range(3):
            assert connection.post("/webhook", review_body()).status == 200
    assert waits == [None] * 3
