"""Bodies of requests, bounded while they arrive: a stated length need not be the true one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Asgi = Callable[[Any, Receive, Send], Awaitable[None]]

JSON: Final = "application/json"


class TooLargeError(Exception):
    """The body is beyond the limit."""


class CutOffError(Exception):
    """The client went away before its body was complete."""


async def read_body(receive: Receive, limit: int) -> bytes:
    """Read a whole body; raises `TooLargeError` and `CutOffError`."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False):
        if len(body) > limit:
            raise TooLargeError
        return body
    chunks, received = [body], len(body)
    while message["type"] == "http.request" and message.get("more_body", False):
        if received > limit:
            raise TooLargeError
        message = await receive()
        chunks.append(message.get("body", b""))
        received += len(chunks[-1])
    if message["type"] != "http.request":
        raise CutOffError
    if received > limit:
        raise TooLargeError
    return b"".join(chunks)


async def respond(
    send: Send, body: bytes, *, status: int = 200, content_type: str = JSON, close: bool = False
) -> None:
    """Send one answer."""
    headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def stream(send: Send, chunks: AsyncIterator[bytes], *, content_type: str) -> None:
    """Send one answer piece by piece."""
    headers = [(b"content-type", content_type.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
