"""The extender's applications over real HTTP."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

import pytest

from extender.figures import CONTENT_TYPE
from extender.gate import Gate
from extender.metrics import Metrics
from extender.parts import NotAsked, Unfit
from extender.quickprotocol import quick_protocol
from extender.routes.filtering import Filtering
from extender.routes.volcano import Volcano
from extender.server import Probes, probe_app, scheduler_app
from kube.connections import BoundedProtocol
from kube.listener import Listener, bind
from sim.loopthread import LoopThread
from tests.extender.standins import CHOSEN, MemoryState, ScriptedChooser, Switch, nothing

_HOST = "127.0.0.1"
_BODY_MAX = 300_000
_POD = {"metadata": {"namespace": "default", "name": "p", "uid": "u"}}


@dataclass
class _Binder:
    """Stands in for what needs an API server."""

    answer: str = ""

    async def bind(self, _args: Any) -> str:
        """Answer."""
        return self.answer


@dataclass
class Served:
    """A running server and what it is made of."""

    port: int
    chooser: ScriptedChooser
    state: MemoryState
    switch: Switch
    binder: _Binder

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, str, bytes]:
        """Return status, content type and body of one answer."""
        connection = HTTPConnection(_HOST, self.port, timeout=30)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.getheader("content-type", ""), answer.read()
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> Any:
        """Return the answer to an object."""
        status, content_type, answer = self.ask("POST", path, json.dumps(body).encode())
        assert (status, content_type) == (200, "application/json")
        return json.loads(answer)


@contextmanager
def served(*, only_probes: bool = False, quick: bool = True) -> Iterator[Served]:
    """Serve by a loop in a thread of its own."""
    loop = LoopThread("extender")
    loop.start()
    chooser, state, switch, binder = (
        ScriptedChooser(answer=CHOSEN),
        MemoryState(),
        Switch(),
        _Binder(),
    )
    listening = bind(_HOST, 0)

    async def make() -> Listener:
        metrics = Metrics()
        gate = Gate(switch, state, metrics, catch_up=nothing)
        probes = Probes(ready=gate.problem, state=state, metrics=metrics)
        if only_probes:
            return Listener(probe_app(probes), listening, None, finish_s=1)
        filters = Filtering(chooser, gate, metrics, wait_ready_s=0.0)
        app = scheduler_app(
            filters=filters,
            binder=binder,  # type: ignore[arg-type]
            asked=Volcano(chooser, metrics),
            probes=probes,
            body_bytes=_BODY_MAX,
        )
        protocol = quick_protocol(filters, _BODY_MAX) if quick else BoundedProtocol
        return Listener(app, listening, None, finish_s=1, protocol=protocol)

    listener = loop.run(make(), timeout_s=30)
    serving = asyncio.run_coroutine_threadsafe(listener.run_until_stopped(), _loop_of(loop))
    try:
        yield Served(listening.getsockname()[1], chooser, state, switch, binder)
    finally:
        loop.call(listener.stop)
        serving.result(30)
        loop.stop()
        listening.close()


def _loop_of(loop: LoopThread) -> asyncio.AbstractEventLoop:
    async def running() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    return loop.run(running(), timeout_s=30)


_WAYS = pytest.mark.parametrize("quick", [True, False])
"""`/filter` where its last byte is read, and by ASGI."""


@_WAYS
def test_filter_and_bind_over_http(quick: bool) -> None:  # noqa: FBT001
    """Capitalised keys, status 200, JSON."""
    with served(quick=quick) as server:
        answer = server.post("/filter", {"Pod": _POD, "Nodes": None, "NodeNames": ["gpu1"]})
        assert answer["NodeNames"] == ["gpu1"]
        binding = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "gpu1"}
        assert server.post("/bind", binding) == {"Error": ""}
        server.binder.answer = "no"
        assert server.post("/bind", binding) == {"Error": "no"}


@_WAYS
def test_a_body_that_comes_in_pieces_is_read_whole(quick: bool) -> None:  # noqa: FBT001
    """Thousands of names do not come in one packet."""
    with served(quick=quick) as server:
        names = [f"node-{each:05}.example.internal" for each in range(5000)]
        server.post("/filter", {"Pod": _POD, "NodeNames": [*names, "gpu1"]})
        assert server.chooser.asked == [(_POD, (*names, "gpu1"))]


@pytest.mark.parametrize("path", ["/filter", "/bind", "/prioritize", "/volcano/predicate"])
def test_bodies_are_bounded(path: str) -> None:
    """By what is set, whether the length is stated or not; the process goes on."""
    with served() as server:
        assert server.ask("POST", path, b" " * (_BODY_MAX + 1))[0] == 413
        connection = HTTPConnection(_HOST, server.port, timeout=30)
        pieces = iter([b" " * 1000] * (_BODY_MAX // 1000 + 1))
        connection.request("POST", path, pieces, encode_chunked=True)
        assert connection.getresponse().status == 413
        connection.close()
        assert server.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"[]", b"\xff", b'{"Node":1}'])
def test_odd_bodies_have_an_error_in_band(body: bytes) -> None:
    """For both routes that kube-scheduler reads."""
    with served() as server:
        for path in ("/filter", "/bind"):
            status, _, answer = server.ask("POST", path, body)
            assert status == 200
            assert json.loads(answer)["Error"]


def _exchange(port: int, *pieces: bytes) -> bytes:
    """Send *pieces* on one connection and return all that comes before it is closed."""
    with socket.create_connection((_HOST, port), timeout=30) as connection:
        for piece in pieces:
            connection.sendall(piece)
        received = b""
        while more := connection.recv(65536):
            received += more
        return received


def _request(path: str, *headers: str, body: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def test_requests_of_one_connection_take_either_way_in_turn() -> None:
    """Pipelined, in pieces, and the last with the wish to close."""
    body = json.dumps({"Pod": _POD, "NodeNames": ["gpu1"]}).encode()
    binding = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "gpu1"}
    with served() as server:
        quick = _request("/filter", body=body)
        received = _exchange(
            server.port,
            quick + quick[:50],
            quick[50:-7],
            quick[-7:] + _request("/bind", body=json.dumps(binding).encode()),
            quick,
            _request("/filter", "Expect: 100-continue", body=body),
            _request("/filter", "Connection: close", body=body),
        )
    assert received.count(b"HTTP/1.1 200 OK") == 6
    assert received.count(b'"NodeNames":["gpu1"]') == 5
    assert received.count(b'{"Error":""}') == 1
    assert received.count(b"HTTP/1.1 100 Continue") <= 1
    assert len(server.chooser.asked) == 5


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (_request("/filter?x=1", "Connection: close", body=b"{}"), b"200"),
        (b"POST /filter HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}", b"200"),
        (b"PUT /filter HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", b"4"),
        (b"POST /filter HTTP/1.1\r\nContent-Length: x\r\n\r\n{}", b"400"),
        (b"POST /filter HTTP/1.1\r\nContent-Length: -2\r\n\r\n{}", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
def test_odd_requests_are_answered_all_the_same(sent: bytes, status: bytes) -> None:
    """By the ordinary way, or as no HTTP at all."""
    with served() as server:
        assert _exchange(server.port, sent).split(b" ")[1].startswith(status)


def test_scores_have_two_names() -> None:
    """And a status where there are none."""
    with served() as server:
        server.chooser.points = [("a", 3)]
        for path in ("/prioritize", "/score"):
            assert server.post(path, {"Pod": _POD, "NodeNames": ["a"]}) == [
                {"Host": "a", "Score": 3}
            ]
        server.switch.reason = "another leads"
        assert server.ask("POST", "/score", b"{}") == (
            503,
            "text/plain; charset=utf-8",
            b"another leads",
        )


def test_readiness_is_the_lead_and_the_first_lists() -> None:
    """Health is neither."""
    with served() as server:
        assert server.ask("GET", "/readyz")[0] == 200
        server.state.problem = "pods not read"
        assert server.ask("GET", "/readyz")[::2] == (503, b"pods not read\n")
        server.state.problem, server.switch.reason = None, "another leads"
        assert server.ask("GET", "/readyz")[::2] == (503, b"another leads\n")
        assert server.ask("GET", "/healthz")[0] == 200


def test_metrics_are_those_of_the_requests_before() -> None:
    """Our own beside HAMi's, in the usual format."""
    with served() as server:
        server.chooser.answer = Unfit(failed={"a": "1/1 CardInsufficientMemory"})
        server.post("/filter", {"Pod": _POD, "NodeNames": ["a"]})
        status, content_type, text = server.ask("GET", "/metrics")
        assert (status, content_type) == (200, CONTENT_TYPE)
        assert b'gpuslice_extender_requests_total{path="/filter",result="unfit"} 1.0' in text
        assert b"# TYPE hami_gpu_memory_limit_bytes gauge" in text


def test_outside_the_pod_one_may_only_look() -> None:
    """Nobody can have pods bound through the port of metrics."""
    with served(only_probes=True) as server:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert server.ask("GET", path)[0] == 200
        for path in ("/filter", "/bind", "/prioritize", "/volcano/predicate", "/refit"):
            assert server.ask("POST", path, b"{}")[0] == 404


def test_other_paths_and_methods_do_not_exist() -> None:
    """Such as HAMi's webhook."""
    with served() as server:
        assert server.ask("POST", "/webhook", b"{}")[0] == 404
        assert server.ask("GET", "/filter")[0] in {404, 405}
        assert server.ask("GET", "/bind")[0] == 405


def test_volcano_is_answered() -> None:
    """On routes of its own."""
    with served() as server:
        server.chooser.dry = NotAsked()
        said = server.post("/volcano/predicate", {"task": {"Pod": _POD}, "node": {"Name": "a"}})
        assert said == {"status": "", "code": 0}
        said = server.post("/volcano/prioritize", {"task": {"Pod": _POD}, "nodes": [{"Name": "a"}]})
        assert said["nodeScore"] == {"a": 0}
