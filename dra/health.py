"""The health stream: kubelet shows what it says in the pods that use a device.

Every message is the complete list, and a device that is not reported again in time (30 seconds
unless the message says otherwise) becomes unknown, so the list is a heartbeat too. Kubelet up to
1.36 opens the stream whether it was offered or not and logs an error every five seconds when the
method is missing, so it is always served.

A synchronous gRPC server gives every open stream a thread. Kubelet opens one per registration;
beyond a few the oldest ends, so that streams never take the threads that prepare needs.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import grpc

HEARTBEAT_S = 10.0
TIMEOUT_S = 30
MAX_STREAMS = 8

HEALTHY = 1


class HealthMessages(Protocol):
    """The message classes of one version of the service."""

    NodeWatchResourcesResponse: Any
    DeviceHealth: Any
    DeviceIdentifier: Any


class HealthStreams:
    """Feeds all open streams from one list of healthy device names."""

    def __init__(
        self, *, pool: str, devices: Callable[[], list[str]], heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        self._pool = pool
        self._devices = devices
        self._heartbeat_s = heartbeat_s
        self._changed = threading.Condition()
        self._open: deque[object] = deque()
        self._stopped = False

    def watch(self, messages: HealthMessages, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yield the list now, at each heartbeat and until the client or this server ends it."""
        token = object()
        with self._changed:
            self._open.append(token)
            while len(self._open) > MAX_STREAMS:
                self._open.popleft()
            self._changed.notify_all()
        try:
            # False means that the client has left already and nobody will call back.
            connected = context.add_callback(lambda: self._close(token))
            while connected and self._is_open(token):
                yield self._message(messages)
                with self._changed:
                    self._changed.wait_for(lambda: not self._is_open(token), self._heartbeat_s)
        finally:
            self._close(token)

    def stop(self) -> None:
        """End all streams."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def count(self) -> int:
        """Return how many streams are open."""
        return len(self._open)

    def _is_open(self, token: object) -> bool:
        return token in self._open and not self._stopped

    def _close(self, token: object) -> None:
        with self._changed:
            if token in self._open:
                self._open.remove(token)
            self._changed.notify_all()

    def _message(self, messages: HealthMessages) -> Any:
        now_s = int(time.time())
        return messages.NodeWatchResourcesResponse(
            devices=[
                messages.DeviceHealth(
                    device=messages.DeviceIdentifier(pool_name=self._pool, device_name=name),
                    health=HEALTHY,
                    last_updated_time=now_s,
                    health_check_timeout_seconds=TIMEOUT_S,
                )
                for name in self._devices()
            ]
        )
