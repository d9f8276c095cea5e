"""Events as a server receives them."""

import queue
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from structlog.testing import capture_logs

from kube.client import MERGE_PATCH, Client
from kube.config import ClientConfig
from kube.events import EventRecorder, Regarding
from tests.fakes.scripted_server import Exchange, Request, Script, ScriptedServer

POD = Regarding(api_version="v1", kind="Pod", name="p", uid="u-1", namespace="ns")
NODE = Regarding(api_version="v1", kind="Node", name="n", uid="u-2")
WAIT_S = 30.0


class Received:
    """Collects the requests of a recorder and answers as *script* says, else with success."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script
        self.requests: queue.Queue[Request] = queue.Queue()

    def __call__(self, request: Request, exchange: Exchange) -> None:
        """Answer, then note."""
        (self.script or (lambda _, exchange: exchange.json({})))(request, exchange)
        self.requests.put(request)

    def next(self) -> Request:
        """Return the next request."""
        return self.requests.get(timeout=WAIT_S)


@contextmanager
def recording(received: Received, *, repeat_s: float = 60.0) -> Iterator[EventRecorder]:
    """Run a recorder against a server."""
    with ScriptedServer(received) as server:
        client = Client(ClientConfig(host=server.url), user_agent="test", timeout_s=15)
        recorder = EventRecorder(client, "gpuslice.io", "n", repeat_s=repeat_s)
        try:
            yield recorder
        finally:
            recorder.close()
            client.close()


def test_an_event_is_created_beside_its_object() -> None:
    """All fields that `kubectl` shows are there."""
    received = Received()
    with recording(received) as recorder:
        recorder.event(POD, "Warning", "PrepareFailed", "no such device")
        request = received.next()
    body: dict[str, Any] = request.json()
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/events")
    assert re.fullmatch(r"p\.[0-9a-f]{16}", body["metadata"]["name"])
    assert body["metadata"]["namespace"] == "ns"
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "u-1",
    }
    assert (body["type"], body["reason"], body["message"], body["count"]) == (
        "Warning",
        "PrepareFailed",
        "no such device",
        1,
    )
    assert body["source"] == {"component": "gpuslice.io", "host": "n"}
    assert (body["reportingComponent"], body["reportingInstance"]) == ("gpuslice.io", "n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body["lastTimestamp"])
    assert body["firstTimestamp"] == body["lastTimestamp"]


def test_an_event_of_a_node_lives_in_default() -> None:
    """A cluster-wide object has no namespace of its own."""
    received = Received()
    with recording(received) as recorder:
        recorder.event(NODE, "Normal", "SharingKept", "all fields were kept")
        request = received.next()
    assert request.path == "/api/v1/namespaces/default/events"
    assert "namespace" not in request.json()["involvedObject"]


def test_repeats_are_counted_in_one_event() -> None:
    """The same again patches the count, no sooner than the interval."""
    received = Received()
    with recording(received, repeat_s=1.0) as recorder:
        recorder.event(POD, "Warning", "PrepareFailed", "busy")
        created = received.next()
        for _ in range(4):
            recorder.event(POD, "Warning", "PrepareFailed", "busy")
        patched = received.next()
    name = created.json()["metadata"]["name"]
    assert (patched.method, patched.path) == ("PATCH", f"/api/v1/namespaces/ns/events/{name}")
    assert patched.headers["Content-Type"] == MERGE_PATCH
    assert patched.json()["count"] == 5
    assert patched.json().keys() == {"count", "lastTimestamp"}
    assert received.requests.empty()


def test_other_words_are_another_event() -> None:
    """Object, type, reason and message together make an event."""
    received = Received()
    with recording(received) as recorder:
        recorder.event(POD, "Warning", "A", "x")
        recorder.event(POD, "Normal", "A", "x")
        recorder.event(POD, "Warning", "B", "x")
        recorder.event(POD, "Warning", "A", "y")
        recorder.event(NODE, "Warning", "A", "x")
        methods = [received.next().method for _ in range(5)]
    assert methods == ["POST"] * 5


def test_repeats_within_the_interval_wait() -> None:
    """Only the first is written at once, and an end in between does not write the rest."""
    received = Received()
    with recording(received) as recorder:
        recorder.event(POD, "Warning", "A", "x")
        received.next()
        for _ in range(100):
            recorder.event(POD, "Warning", "A", "x")
    assert received.requests.empty()


def test_an_event_that_the_server_forgot_is_made_anew() -> None:
    """After its hour the count begins at one."""

    def script(request: Request, exchange: Exchange) -> None:
        if request.method == "PATCH":
            exchange.status(404, "NotFound")
        else:
            exchange.json({})

    received = Received(script)
    with recording(received, repeat_s=0.05) as recorder:
        recorder.event(POD, "Warning", "A", "x")
        first = received.next().json()
        recorder.event(POD, "Warning", "A", "x")
        assert received.next().method == "PATCH"
        second = received.next().json()
    assert second["count"] == 1
    assert second["metadata"]["name"] != first["metadata"]["name"]


def test_a_long_message_is_cut_between_characters() -> None:
    """The server takes 1024 bytes."""
    received = Received()
    with recording(received) as recorder:
        recorder.event(POD, "Warning", "A", "x" + "ü" * 2000)
        message = received.next().json()["message"]
    assert message == "x" + "ü" * 511


def test_a_long_name_leaves_room_for_the_suffix() -> None:
    """Event names have the limit of all names."""
    received = Received()
    with recording(received) as recorder:
        named = Regarding(api_version="v1", kind="Pod", name="p" * 253, uid="u", namespace="ns")
        recorder.event(named, "Normal", "A", "x")
        name = received.next().json()["metadata"]["name"]
    assert len(name) == 253


def test_a_failing_server_is_logged_once_and_tried_again() -> None:
    """The caller notices nothing, and the event arrives in the end."""
    healthy = threading.Event()

    def script(_request: Request, exchange: Exchange) -> None:
        if healthy.is_set():
            exchange.json({})
        else:
            exchange.status(503, "ServiceUnavailable")

    received = Received(script)
    with capture_logs() as logs, recording(received, repeat_s=0.02) as recorder:
        recorder.event(POD, "Warning", "A", "x")
        for _ in range(3):
            received.next()
        healthy.set()
        while received.next().method != "POST" or not recorder_is_idle(recorder):
            continue
    assert [entry["event"] for entry in logs] == ["event not written"]


def recorder_is_idle(recorder: EventRecorder) -> bool:
    """Tell whether nothing waits to be written."""
    with recorder._changed:
        return all(series.due_s is None for series in recorder._series.values())


def test_a_refused_event_is_given_up() -> None:
    """A namespace that is going away does not get it again and again."""
    received = Received(lambda _, exchange: exchange.status(403, "Forbidden"))
    with recording(received, repeat_s=0.01) as recorder:
        recorder.event(POD, "Warning", "A", "x")
        received.next()
        recorder.event(NODE, "Warning", "B", "y")
        received.next()
    assert received.requests.empty()


def test_too_many_events_are_dropped_without_blocking() -> None:
    """While the server hangs the caller goes on, and memory stays bounded."""
    release = threading.Event()

    def script(_request: Request, exchange: Exchange) -> None:
        release.wait(WAIT_S)
        exchange.json({})

    received = Received(script)
    with recording(received) as recorder, capture_logs() as logs:
        for number in range(1000):
            recorder.event(POD, "Warning", "A", f"message {number}")
        waiting = len(recorder._series)
        release.set()
    assert waiting == 256
    assert [entry["event"] for entry in logs] == ["event dropped"]


def test_closing_writes_what_was_never_written() -> None:
    """The last words before an exit arrive."""
    received = Received()
    with recording(received) as recorder:
        for number in range(10):
            recorder.event(POD, "Normal", "Stopping", str(number))
    assert received.requests.qsize() == 10
