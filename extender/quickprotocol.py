"""`/filter` answered where its last byte is read: no task, no messages, one write.

ASGI makes of every request a task and of every answer two messages, which uvicorn writes as two
packets; with a body of thousands of names it also stops and goes on reading. All that takes as long
as a decision. So what kube-scheduler sends is answered here, if that can be done at once; whatever
is out of the ordinary (a body without a length or too long, `Expect`, a connection that is to be
closed, a replica that is not ready) takes the way by ASGI.
"""

from typing import Any, Final

from extender.routes.filtering import PATH, Filtering
from kube.connections import BoundedProtocol

_PATH: Final = PATH.encode()
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def quick_protocol(filters: Filtering, body_bytes: int) -> type[BoundedProtocol]:
    """Return a protocol that answers by *filters*."""

    class Quick(QuickProtocol):
        quick_filters = filters
        quick_bytes = body_bytes

    return Quick


class QuickProtocol(BoundedProtocol):
    """HTTP connections of kube-scheduler; see `quick_protocol`."""

    quick_filters: Filtering
    quick_bytes: int

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pieces: list[bytes] | None = None
        """Of the body of a request that is answered here."""

    def on_headers_complete(self) -> None:
        """Choose the way."""
        if self._is_quick():
            self.head_ended()
            self._pieces = []
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a piece."""
        if self._pieces is not None:
            self._pieces.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Answer."""
        if self._pieces is None:
            super().on_message_complete()
            return
        self.head_ended()
        body, self._pieces = b"".join(self._pieces), None
        answer = self.quick_filters.filter_now(body)
        dates = [b"%b: %b\r\n" % header for header in self.server_state.default_headers]
        length = b"content-length: %d\r\n\r\n" % len(answer)
        self.transport.write(b"".join((_HEAD, *dates, length, answer)))
        self.on_response_complete()

    def _is_quick(self) -> bool:
        if self.url != _PATH or self.parser.get_method() != b"POST" or self.expect_100_continue:
            return False
        if self.parser.get_http_version() != "1.1" or not self.parser.should_keep_alive():
            return False
        # uvicorn says otherwise, but there is none before the first request.
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            return False
        lengths = [value for name, value in self.headers if name == b"content-length"]
        if len(lengths) != 1 or int(lengths[0]) > self.quick_bytes:
            return False
        return self.quick_filters.is_ready()
