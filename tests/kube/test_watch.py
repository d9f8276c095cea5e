"""Watches: lines, ends, silence and closing from elsewhere."""

import threading
import time
from pathlib import Path

import pytest

from kube.client import Client
from kube.config import ClientConfig
from kube.errors import ConnectionFailedError, GoneError
from tests.fakes.authority import Authority
from tests.fakes.scripted_server import Exchange, Request, ScriptedServer


def client_of(url: str, **settings: object) -> Client:
    """Build a client for *url*."""
    return Client(
        ClientConfig(host=url, **settings),  # type: ignore[arg-type]
        user_agent="test",
        timeout_s=15,
    )


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Make a fresh authority."""
    return Authority(tmp_path)


def test_a_watch_yields_lines_however_they_were_cut() -> None:
    """Chunks and lines need not agree; blank lines are left out."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.stream()
        for chunk in (b'{"a":', b"1}\n\n{", b'"b":2}', b"\n", b'{"c":3}\n{"d":4}\n', b"half"):
            exchange.chunk(chunk)
        exchange.end()

    with ScriptedServer(script) as server:
        client = client_of(server.url)
        with client.watch("/w", {"resourceVersion": "5"}, timeout_s=15) as watch:
            lines = list(watch)
        client.close()
    assert lines == [b'{"a":1}', b'{"b":2}', b'{"c":3}', b'{"d":4}', b"half"]
    assert server.requests[0].query == {"resourceVersion": "5", "watch": "true"}


def test_a_watch_works_without_chunks() -> None:
    """An answer that ends with its connection is read line by line too."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.send(200, b'{"a":1}\n{"b":2}\n', length=False)
        exchange.cut()

    with ScriptedServer(script) as server:
        client = client_of(server.url)
        with client.watch("/w", {}, timeout_s=15) as watch:
            assert list(watch) == [b'{"a":1}', b'{"b":2}']
        client.close()


def test_a_watch_can_be_refused() -> None:
    """The error is that of a plain request."""
    with ScriptedServer(lambda _, exchange: exchange.status(410, "Expired")) as server:
        client = client_of(server.url)
        with pytest.raises(GoneError):
            client.watch("/w", {}, timeout_s=15)
        client.close()


def test_a_silent_watch_fails() -> None:
    """Inactivity is noticed after its own timeout."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.stream()
        exchange.line({"a": 1})
        exchange.hold()

    with ScriptedServer(script) as server:
        client = client_of(server.url)
        seen: list[bytes] = []
        with client.watch("/w", {}, timeout_s=0.5) as watch, pytest.raises(ConnectionFailedError):
            seen.extend(watch)
        client.close()


def test_a_cut_watch_fails() -> None:
    """An end without the last chunk is no proper end."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.stream()
        exchange.line({"a": 1})
        exchange.cut()

    with ScriptedServer(script) as server:
        client = client_of(server.url)
        with client.watch("/w", {}, timeout_s=15) as watch:
            lines = iter(watch)
            assert next(lines) == b'{"a": 1}'
            with pytest.raises(ConnectionFailedError, match="watch of /w"):
                next(lines)
        client.close()


@pytest.mark.parametrize("secure", [False, True])
def test_closing_a_watch_ends_a_blocked_read(*, secure: bool, authority: Authority) -> None:
    """Another thread may close it at any time; the iteration just ends."""

    def script(_request: Request, exchange: Exchange) -> None:
        exchange.stream()
        exchange.line({"a": 1})
        exchange.hold()

    with ScriptedServer(script, tls=authority.serving() if secure else None) as server:
        client = client_of(server.url, ca_file=authority.ca_file)
        got_line = threading.Event()
        lines: list[bytes] = []
        with client.watch("/w", {}, timeout_s=60) as watch:

            def read() -> None:
                for line in watch:
                    lines.append(line)
                    got_line.set()

            reader = threading.Thread(target=read)
            reader.start()
            assert got_line.wait(10)
            # Give the reader time to block again; closing earlier must work as well.
            time.sleep(0.05)
            watch.close()
            reader.join(10)
            assert not reader.is_alive()
            watch.close()
        client.close()
    assert lines == [b'{"a": 1}']
