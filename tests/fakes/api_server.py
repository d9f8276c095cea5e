"""The simulated API server behind real HTTP, for tests that are not asynchronous."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kube.client import Client
from kube.config import ClientConfig
from sim.apiserver.server import ApiServer
from sim.loopthread import LoopThread

Value = TypeVar("Value")

_DEADLINE_S = 30.0


class ServerThread:
    """A server in a thread of its own; `start` and `stop` it, or use `serving`."""

    def __init__(self, version: str = "1.37") -> None:
        self.server = ApiServer(version)
        """Use it by `run` and `call`, since it belongs to the thread's loop."""
        self._loop = LoopThread("api-server")

    def start(self) -> None:
        """Listen."""
        self._loop.start()
        self.run(self.server.start())

    def stop(self) -> None:
        """Stop listening and end the thread."""
        self.run(self.server.stop())
        self._loop.stop()

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run *work* in the server's loop and return its value."""
        return self._loop.run(work, timeout_s=_DEADLINE_S)

    def call(self, function: Callable[..., Value], *args: Any, **options: Any) -> Value:
        """Call *function* in the server's loop and return its value."""
        return self._loop.call(function, *args, **options)

    def client(self, user: str = "agent") -> Client:
        """Return a client with a token of *user*."""
        token = self.call(self.server.token_for, user)
        config = ClientConfig(host=self.server.url, token=lambda: token)
        return Client(config, user_agent="test")


@contextmanager
def serving(version: str = "1.37") -> Iterator[ServerThread]:
    """Run a server."""
    running = ServerThread(version)
    running.start()
    try:
        yield running
    finally:
        running.stop()
