"""The health stream: kubelet shows what it says in the pods that use a device.

Every message is the complete list, and a device that is not reported again in time (30 seconds
unless the message says otherwise) becomes unknown, so the list is a heartbeat too; a change is not
left to the next one. Kubelet cuts a device's message at 1024 bytes, in the middle of a character
if need be. Up to 1.36 it opens the stream whether it was offered or not and logs an error every
five seconds when the method is missing, so it is always served.

A synchronous gRPC server gives every open stream a thread. Kubelet opens one per registration;
beyond a few the oldest ends, so that streams never take the threads that prepare needs.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import grpc

from dra.devicehealth import DeviceHealth

HEARTBEAT_S = 10.0
TIMEOUT_S = 30
MAX_STREAMS = 8

HEALTHY = 1
UNHEALTHY = 2

_MESSAGE_MAX = 1000


class HealthMessages(Protocol):
    """The message classes of one version of the service."""

    NodeWatchResourcesResponse: Any
    DeviceHealth: Any
    DeviceIdentifier: Any


class HealthStreams:
    """Feeds all open streams from one list of devices."""

    def __init__(
        self,
        *,
        pool: str,
        devices: Callable[[], Sequence[DeviceHealth]],
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        """Prepare; *devices* returns all there are, ill ones too."""
        self._pool = pool
        self._devices = devices
        self._heartbeat_s = heartbeat_s
        self._changed = threading.Condition()
        self._changes = 0
        self._open: deque[object] = deque()
        self._stopped = False

    def watch(self, messages: HealthMessages, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yield the list now, at each heartbeat and change, until either side ends the stream."""
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
                # Before the list is read: a change during that is sent as well.
                seen = self._changes
                yield self._message(messages)
                self._pause(token, seen)
        finally:
            self._close(token)

    def changed(self) -> None:
        """Have the list sent to everybody at once: it is another one now."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def stop(self) -> None:
        """End all streams."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def count(self) -> int:
        """Return how many streams are open."""
        return len(self._open)

    def _pause(self, token: object, seen: int) -> None:
        """Wait for the next heartbeat, for a change after the one *seen*, or for the end."""

        def is_due() -> bool:
            return self._changes != seen or not self._is_open(token)

        with self._changed:
            self._changed.wait_for(is_due, self._heartbeat_s)

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
                    device=messages.DeviceIdentifier(pool_name=self._pool, device_name=each.name),
                    health=HEALTHY if each.healthy else UNHEALTHY,
                    last_updated_time=now_s,
                    health_check_timeout_seconds=TIMEOUT_S,
                    message="" if each.healthy else _said(each),
                )
                for each in self._devices()
            ]
        )


def _said(device: DeviceHealth) -> str:
    said = f"{device.code}: {device.message}".encode("ascii", "replace")
    return said[:_MESSAGE_MAX].decode()
