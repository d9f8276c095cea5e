"""uvicorn as a part of a program."""

import asyncio
import socket
from http.client import HTTPConnection
from typing import Any

import pytest

from kube.listener import Listener, bind
from sim.loopthread import LoopThread

_HOST = "127.0.0.1"
_BOTH = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")


@pytest.mark.parametrize(
    ("address", "clients"), [(_HOST, [_HOST]), pytest.param("::", [_HOST, "::1"], marks=_BOTH)]
)
def test_answers_do_not_wait_for_acknowledgements(address: str, clients: list[str]) -> None:
    """What listens hands on to each connection that nothing is held back; `::` takes both kinds."""
    with bind(address, 0) as listening:
        for client in clients:
            with socket.create_connection((client, listening.getsockname()[1])):
                accepted, _ = listening.accept()
                with accepted:
                    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def _echo(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})


def test_without_tls_it_speaks_plain_http_and_ends_when_told() -> None:
    """What listens to its own pod alone needs no certificate."""
    loop = LoopThread("listener")
    loop.start()
    try:
        with bind(_HOST, 0) as listening:
            listener = Listener(_echo, listening, None, finish_s=1)

            async def serve() -> None:
                serving = asyncio.create_task(listener.run_until_stopped())
                answer = await asyncio.to_thread(_ask, listening.getsockname()[1])
                assert answer == b"here"
                listener.stop()
                await serving

            loop.run(serve(), timeout_s=30)
    finally:
        loop.stop()


def _ask(port: int) -> bytes:
    connection = HTTPConnection(_HOST, port, timeout=10)
    connection.request("GET", "/")
    try:
        return connection.getresponse().read()
    finally:
        connection.close()
