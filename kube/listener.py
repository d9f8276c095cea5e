"""uvicorn as one part of a program: somebody else's sockets, signals, logs and certificates.

No module of the node agent may import this one: it is too big for a node.

The API server keeps connections open for 90 s (Go's default) and does not repeat a POST that meets
the end of one, so this side must be the more patient. For the same reason each answer of a server
that is about to end says so: the client opens its next connection elsewhere.
"""

import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from uvicorn import Config, Server

from kube.connections import BoundedProtocol

if TYPE_CHECKING:
    # Programs that serve no TLS do without what reads certificates.
    from kube.tls import ServingContext

_KEEP_ALIVE_S: Final = 120
_BACKLOG: Final = 1024

Application = Callable[[Any, Any, Any], Awaitable[None]]
"""Speaks ASGI 3."""


def bind(address: str, port: int) -> socket.socket:
    """Return a listening socket; `::` takes IPv4 as well where it can. Raises `OSError`."""
    kind: dict[str, Any] = {}
    if ":" in address:
        both = address == "::" and socket.has_dualstack_ipv6()
        kind = {"family": socket.AF_INET6, "dualstack_ipv6": both}
    listening = socket.create_server((address, port), backlog=_BACKLOG, **kind)
    # asyncio sees to this only for sockets that name their protocol, which these do not. Without
    # it an answer's second packet waits for the client's acknowledgement of the first: 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Listener(Server):
    """Serves an application until it is told to stop."""

    def __init__(
        self,
        app: Application,
        listening: socket.socket,
        tls: "ServingContext | None",
        *,
        finish_s: float,
        protocol: type[BoundedProtocol] = BoundedProtocol,
    ) -> None:
        """Prepare; requests that run when it stops have *finish_s* to end.

        Without *tls* it speaks plain HTTP, which is for loopback and for probes.
        """
        context = None if tls is None else lambda _config, _default: tls.context
        super().__init__(
            Config(
                app,
                http=protocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, round(finish_s)),
                ssl_context_factory=context,
            )
        )
        self._listening = listening

    async def run_until_stopped(self) -> None:
        """Serve; returns after `stop` when the last request has its answer."""
        await self.serve(sockets=[self._listening])

    def stop(self) -> None:
        """Take no more connections, end the idle ones and let requests finish."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program."""
        yield
