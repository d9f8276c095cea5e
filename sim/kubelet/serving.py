"""Serve gRPC on a unix socket of kubelet's, with answers made in kubelet's own loop.

As kubelet does it, the socket's file outlives the server: nobody listens behind it until the next
kubelet removes it and makes another one.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import grpc

from sim.kubelet.errors import KubeletError

Answer = TypeVar("Answer")


class SocketServer:
    """A gRPC server at *path*; its servicers hand their work to `answer`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._server: grpc.Server | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: set[Future[Any]] = set()

    def start(self, add: Callable[[grpc.Server], object]) -> None:
        """Listen; *add* puts the servicers into the server. A loop must be running."""
        self._loop = asyncio.get_running_loop()
        self._path.unlink(missing_ok=True)
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="kubelet")
        self._server = grpc.server(self._threads, options=[("grpc.so_reuseport", 0)])
        add(self._server)
        self._server.add_insecure_port(f"unix:{self._path}")
        self._server.start()

    async def stop(self) -> None:
        """End all calls and listen no more."""
        if self._server is None:
            return
        for future in list(self._pending):
            future.cancel()
        await asyncio.to_thread(self._server.stop(0).wait)
        self._server = None
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as left:
            left.bind(str(self._path))

    def answer(self, work: Coroutine[Any, Any, Answer], context: grpc.ServicerContext) -> Answer:
        """Return what *work* returns in kubelet's loop; called in a thread of the server.

        A `KubeletError` reaches the caller as Go's servers send an error: with code UNKNOWN.
        """
        if self._loop is None:
            work.close()
            raise RuntimeError("the server was not started")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._pending.add(future)
        try:
            return future.result()
        except KubeletError as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except CancelledError:
            context.abort(grpc.StatusCode.UNAVAILABLE, "kubelet ends")
        finally:
            self._pending.discard(future)
