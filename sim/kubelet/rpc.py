"""gRPC over unix sockets from an asyncio loop, without a thread per waiting call.

grpcio's asyncio stack shares one poller between all loops of a process and complains when there
are several, as in a test run with many clusters. Its ordinary stack has futures, which is enough.
"""

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from sim.kubelet.errors import CallError

if TYPE_CHECKING:
    from grpc import Future, UnaryUnaryMultiCallable

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


async def ready(channel: grpc.Channel, *, timeout_s: float) -> None:
    """Wait until *channel* is connected; raise `TimeoutError`."""
    future = grpc.channel_ready_future(channel)
    try:
        await asyncio.wait_for(_settled(future), timeout_s)
    finally:
        future.cancel()


async def call(
    name: str,
    method: "UnaryUnaryMultiCallable[Request, Response]",
    request: Request,
    *,
    timeout_s: float,
) -> Response:
    """Call a unary *method* of a stub and return its response; raise `CallError`.

    Cancelling the task cancels the call, as a client that goes away does.
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


async def _settled(future: "Future[Any]") -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def tell(_: Any) -> None:
        # The loop may have ended meanwhile; then nobody waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(tell)
    await done.wait()
