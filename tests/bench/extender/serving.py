"""A server of HTTP/1.1 that does next to nothing besides what its handler does."""

import asyncio
from collections.abc import Callable
from typing import cast

Handler = Callable[[str, bytes], tuple[int, bytes]]
"""Takes target and body, returns status and JSON."""
_END = b"\r\n\r\n"


class _Connection(asyncio.Protocol):
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._begun = bytearray()
        self._needed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._begun += data
        if len(self._begun) < self._needed:
            return
        end = self._begun.find(_END)
        if end < 0:
            return
        head = bytes(self._begun[:end])
        self._needed = end + len(_END) + length_of(head)
        if len(self._begun) < self._needed:
            return
        body = bytes(self._begun[end + len(_END) : self._needed])
        del self._begun[: self._needed]
        self._needed = 0
        status, said = self._handler(head.split(b" ", 2)[1].decode(), body)
        self._transport.write(whole(status, said))


def length_of(head: bytes) -> int:
    """Return the length of the body that *head* announces."""
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key.lower() == b"content-length":
            return int(value)
    return 0


def whole(status: int, body: bytes) -> bytes:
    """Return the answer that carries *body*."""
    head = b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


async def serve(port: int, handler: Handler) -> None:
    """Answer on the loopback until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(handler), "127.0.0.1", port)
    await server.serve_forever()
