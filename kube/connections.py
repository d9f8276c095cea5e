"""HTTP connections that cost little however their clients behave.

Anybody in the cluster can reach the port. uvicorn bounds neither the size of a request's head nor
the time that it takes: a client that never comes to an end would hold memory, or a connection,
for ever. (The body is bounded where it is read.)
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_MAX_BYTES: Final = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose next request does not begin properly."""

    head_max_s = 10.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head_bytes = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(self.head_max_s, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._end_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take *data*; close where it has not ended a head that is too long."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_MAX_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self._in_head = True
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_max_s, self._give_up)

    def on_headers_complete(self) -> None:
        """End counting."""
        self.head_ended()
        super().on_headers_complete()

    def head_ended(self) -> None:
        """Bound the head no more, as it is complete."""
        self._in_head = False
        self._head_bytes = 0
        self._end_timer()

    def on_message_complete(self) -> None:
        """Count anew: what comes next is another head."""
        self._head_bytes = 0
        super().on_message_complete()

    def _end_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
