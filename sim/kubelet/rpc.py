"""gRPC over unix sockets from an asyncio loop, without a thread per waiting call.

grpcio's asyncio stack shares one poller between all loops of a process and complains when there
are several, as in a test run with many clusters. Its ordinary stack has futures, which is enough.
"""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc

from sim.kubelet.errors import CallError

if TYPE_CHECKING:
    from grpc import Future, UnaryUnaryMultiCallable

_DIAL_AGAIN_S: Final = 0.1
_CLOSE_AFTER_S: Final = 2.0

Request = TypeVar("Request")
Response = TypeVar("Response")


def open_channel(socket: str | Path) -> grpc.Channel:
    """Return a channel to a unix *socket* that shares nothing with other channels."""
    return grpc.insecure_channel(
        f"unix:{socket}",
        options=[
            ("grpc.default_authority", "localhost"),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ],
    )


async def dial(socket: str | Path, *, timeout_s: float) -> None:
    """Wait until somebody listens on a unix *socket*; raise `TimeoutError`."""
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(socket)
            except OSError:
                await asyncio.sleep(_DIAL_AGAIN_S)
                continue
            writer.close()
            return


async def call(
    name: str,
    method: "UnaryUnaryMultiCallable[Request, Response]",
    request: Request,
    *,
    timeout_s: float | None,
) -> Response:
    """Call a unary *method* of a stub and return its response; raise `CallError`.

    Cancelling the task cancels the call, as a client that goes away does. No *timeout_s* waits for
    ever.
    """
    future = method.future(request, timeout=timeout_s)
    try:
        await _settled(future)
        return future.result()
    except grpc.RpcError as error:
        # What a call raises is always the call itself, which carries its status.
        raise CallError(name, future.code(), future.details() or "") from error
    except grpc.FutureCancelledError as error:
        raise CallError(name, grpc.StatusCode.CANCELLED, "call cancelled") from error
    finally:
        future.cancel()


def go_status(code: grpc.StatusCode, details: str) -> str:
    """Return a status as Go's gRPC writes it into an error."""
    words = {grpc.StatusCode.OK: "OK", grpc.StatusCode.CANCELLED: "Canceled"}
    name = words.get(code, code.name.title().replace("_", ""))
    return f"rpc error: code = {name} desc = {details}"


def close_later(channel: grpc.Channel) -> None:
    """Close a *channel* whose state was watched: grpcio's watcher ends some 0.2 s afterwards.

    It would die of a channel that is closed meanwhile, and print a traceback.
    """
    timer = threading.Timer(_CLOSE_AFTER_S, channel.close)
    timer.daemon = True
    timer.start()


async def _settled(future: "Future[Any]") -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def tell(_: Any) -> None:
        # The loop may have ended meanwhile; then nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(tell)
    await done.wait()
