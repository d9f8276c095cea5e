"""Events: what `kubectl describe` shows about an object, written without holding up the caller.

A thread of its own writes them. The same thing said again about the same object becomes a higher
count, and that is written once a minute at most: kubelet repeats a failed prepare for as long as
the pod exists. An Event lives in the namespace of its object, that of a cluster-wide object in
`default`; the server takes messages of 1024 bytes at most and forgets Events after an hour.
"""

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

import structlog

from kube.client import MERGE_PATCH, Client
from kube.errors import ApiError, KubeError, NotFoundError, ServerError, TooManyRequestsError
from kube.objects import JsonObject
from kube.paths import events

log = structlog.get_logger(__name__)

EventType = Literal["Normal", "Warning"]

_MESSAGE_MAX: Final = 1024
_NAME_MAX: Final = 253
_SERIES_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Regarding:
    """The object that an event is about; a cluster-wide one has no namespace."""

    api_version: str
    kind: str
    name: str
    uid: str
    namespace: str = ""

    @property
    def event_namespace(self) -> str:
        """Return the namespace in which its Events live."""
        return self.namespace or "default"

    def reference(self) -> JsonObject:
        """Return the value of `involvedObject`."""
        found = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: value for key, value in found.items() if value}


class _Saying(NamedTuple):
    regarding: Regarding
    type: EventType
    reason: str
    message: str


@dataclass(slots=True)
class _Series:
    """One event and its repeats; *due_s* is `None` while everything is written."""

    first: str
    last: str = ""
    count: int = 0
    name: str | None = None
    due_s: float | None = None
    next_write_s: float = field(default=0.0)


class EventRecorder:
    """Writes Events as *component* on *host*; nothing in it raises for want of a server."""

    def __init__(
        self, client: Client, component: str, host: str, *, repeat_s: float = 60.0
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._repeat_s = repeat_s
        self._series: OrderedDict[_Saying, _Series] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False
        self._abandoned = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def event(self, regarding: Regarding, type_: EventType, reason: str, message: str) -> None:
        """Note that this happened; it is written soon, or dropped when too much waits."""
        saying = _Saying(regarding, type_, reason, _cut(message))
        now = _timestamp()
        with self._changed:
            series = self._series.get(saying)
            if series is None:
                if not self._make_room():
                    return
                series = self._series[saying] = _Series(first=now)
            self._series.move_to_end(saying)
            series.count += 1
            series.last = now
            series.due_s = series.next_write_s
            self._changed.notify()

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what was never written and end, within *timeout_s*."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        with self._changed:
            self._abandoned = True

    def _make_room(self) -> bool:
        """Forget the longest unheard series that is written; say whether there is room."""
        if len(self._series) < _SERIES_MAX:
            return True
        for saying, series in self._series.items():
            if series.due_s is None:
                del self._series[saying]
                return True
        self._log_once("event dropped", reason="too many wait")
        return False

    def _run(self) -> None:
        while (found := self._next()) is not None:
            saying, series = found
            try:
                self._write(saying, series)
            except KubeError as error:
                self._log_once("event not written", error=str(error))
                self._give_up_or_retry(saying, error)
            except Exception:
                log.exception("event not written")
            else:
                self._failing = False

    def _next(self) -> tuple[_Saying, _Series] | None:
        """Wait for a series that is due and mark it as written; `None` to end."""
        with self._changed:
            while not self._abandoned:
                now_s = time.monotonic()
                waiting = [
                    (series.due_s, saying)
                    for saying, series in self._series.items()
                    if series.due_s is not None
                ]
                due_s, saying = min(waiting, default=(None, None), key=_first)
                if due_s is not None and saying is not None and due_s <= now_s:
                    series = self._series[saying]
                    series.due_s = None
                    series.next_write_s = now_s + self._repeat_s
                    return saying, series
                if self._closed:
                    return None
                self._changed.wait(None if due_s is None else due_s - now_s)
        return None

    def _write(self, saying: _Saying, series: _Series) -> None:
        namespace = saying.regarding.event_namespace
        if series.name is not None:
            body: JsonObject = {"count": series.count, "lastTimestamp": series.last}
            try:
                self._client.patch(events(namespace, series.name), body, content_type=MERGE_PATCH)
            except NotFoundError:
                # Forgotten by the server after its hour: begin a new one.
                with self._changed:
                    series.name, series.count, series.first = None, 1, series.last
            else:
                return
        name = f"{saying.regarding.name[: _NAME_MAX - 17]}.{secrets.token_hex(8)}"
        self._client.create(events(namespace), self._body(saying, series, name))
        series.name = name

    def _body(self, saying: _Saying, series: _Series, name: str) -> JsonObject:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": saying.regarding.event_namespace},
            "involvedObject": saying.regarding.reference(),
            "type": saying.type,
            "reason": saying.reason,
            "message": saying.message,
            "count": series.count,
            "firstTimestamp": series.first,
            "lastTimestamp": series.last,
            "source": {"component": self._component, "host": self._host},
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

    def _give_up_or_retry(self, saying: _Saying, error: KubeError) -> None:
        passing = not isinstance(error, ApiError) or isinstance(
            error, (ServerError, TooManyRequestsError)
        )
        with self._changed:
            series = self._series.get(saying)
            if series is not None and passing:
                series.due_s = series.next_write_s
            elif series is not None:
                del self._series[saying]

    def _log_once(self, event: str, **facts: str) -> None:
        """Log the first failure of a row of failures."""
        if not self._failing and not self._abandoned:
            self._failing = True
            log.warning(event, **facts)


def _first(pair: tuple[float | None, _Saying | None]) -> float:
    return pair[0] or 0.0


def _cut(message: str) -> str:
    return message.encode()[:_MESSAGE_MAX].decode(errors="ignore")


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
