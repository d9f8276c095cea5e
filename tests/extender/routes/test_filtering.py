"""`/filter` and `/prioritize` by their answers."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog

from extender.metrics import Metrics
from extender.parts import Answer, Chosen, Failed, NotAsked, Unfit
from extender.routes.filtering import Filtering
from kube import logs
from tests.extender.standins import CHOSEN, MemoryState, ScriptedChooser, Switch, open_gate

_POD = {"metadata": {"namespace": "default", "name": "p", "uid": "u"}}
_NODES: dict[str, Any] = {
    "items": [
        {"metadata": {"name": "gpu1", "annotations": {"a": "b"}}, "status": {"images": [1]}},
        {"metadata": {"name": "cpu1"}},
    ]
}


@dataclass
class Scene:
    """A route with everything around it."""

    chooser: ScriptedChooser = field(default_factory=ScriptedChooser)
    state: MemoryState = field(default_factory=MemoryState)
    switch: Switch = field(default_factory=Switch)
    metrics: Metrics = field(default_factory=Metrics)
    wait_ready_s: float = 0.0
    busy: set[str] = field(default_factory=set)

    async def _filters(self) -> Filtering:
        gate = await open_gate(self.state, self.metrics, self.switch)
        return Filtering(
            self.chooser, gate, self.metrics, wait_ready_s=self.wait_ready_s, busy=self.busy
        )

    def filter(self, body: bytes | dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()

        async def ask() -> bytes:
            return await (await self._filters()).filter(raw)

        answer: dict[str, Any] = json.loads(asyncio.run(ask()))
        return answer

    def prioritize(self, body: dict[str, Any]) -> tuple[int, bytes]:
        """Return the answer to one request."""

        async def ask() -> tuple[int, bytes]:
            return await (await self._filters()).prioritize(json.dumps(body).encode())

        return asyncio.run(ask())

    def value(self, name: str, **labels: str) -> float:
        """Return a metric."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def _scene(answer: Answer, dry: Answer | None = None) -> Scene:
    return Scene(chooser=ScriptedChooser(answer=answer, dry=dry or answer))


def _names_form(*names: str) -> dict[str, Any]:
    return {"Pod": _POD, "Nodes": None, "NodeNames": list(names)}


def _result(**said: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes"))
    return {**empty, "Error": "", **said}


def test_a_pod_that_may_be_bound_already_is_not_placed_again() -> None:
    """What it has would be given away; others are placed meanwhile."""
    here = _scene(CHOSEN)
    here.busy = {"u"}
    assert "nobody knows yet" in here.filter(_names_form("gpu1"))["Error"]
    assert not here.chooser.asked
    here.busy = {"another"}
    assert here.filter(_names_form("gpu1"))["NodeNames"] == ["gpu1"]


def test_the_chosen_node_is_named_alone() -> None:
    """The others' reasons are not asked for when a node is found."""
    scene = _scene(CHOSEN)
    assert scene.filter(_names_form("cpu1", "gpu1")) == _result(NodeNames=["gpu1"])
    assert scene.chooser.asked == [(_POD, ("cpu1", "gpu1"))]
    assert scene.value("hami_scheduler_allocations_total", phase="filter", device_type="NVIDIA")


def test_reasons_go_where_eviction_would_help_or_not() -> None:
    """Each node has one reason in one of the two lists."""
    answer = Unfit(
        failed={"gpu1": "2/2 CardInsufficientMemory"},
        unresolvable={"cpu1": "node unregistered"},
        reasons={"CardInsufficientMemory": 1},
    )
    scene = _scene(answer)
    assert scene.filter(_names_form("cpu1", "gpu1")) == _result(
        FailedNodes={"gpu1": "2/2 CardInsufficientMemory"},
        FailedAndUnresolvableNodes={"cpu1": "node unregistered"},
    )
    assert scene.value(
        "hami_scheduler_allocation_failures_total",
        phase="filter",
        device_type="",
        failure_reason="CardInsufficientMemory",
    )


def test_other_pods_get_back_what_was_sent() -> None:
    """In the form in which it was sent, so that no node is lost."""
    scene = _scene(NotAsked())
    assert scene.filter(_names_form("a", "b")) == _result(NodeNames=["a", "b"])
    assert scene.filter({"Pod": _POD, "Nodes": _NODES, "NodeNames": None}) == _result(Nodes=_NODES)
    assert scene.filter({"Pod": _POD}) == _result()


def test_sent_nodes_make_a_dry_question() -> None:
    """Keys in any case; the chosen node comes back as it came, and nothing is counted."""
    failed = {"cpu1": "node unregistered"}
    scene = _scene(Failed("live"), Chosen(node="gpu1", score=0, failed=failed, words=("NVIDIA",)))
    answer = scene.filter({"pod": _POD, "nodes": _NODES})
    assert answer["Nodes"]["items"] == [_NODES["items"][0]]
    assert answer["FailedNodes"] == failed
    assert answer["NodeNames"] is None
    assert scene.chooser.asked == [(_POD, ("gpu1", "cpu1"))]
    labels = {"phase": "filter", "device_type": "NVIDIA"}
    assert not scene.value("hami_scheduler_allocations_total", **labels)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"{}", b"[1]", b'{"Pod":null}', b'{"Pod":"p"}', b"\xff\xfe", b"{" * 500]
)
def test_odd_bodies_are_answered_in_band(body: bytes) -> None:
    """kube-scheduler shows the error of an answer to the user, not that of a status."""
    answer = _scene(CHOSEN).filter(body)
    assert answer["Error"]
    assert answer == _result(Error=answer["Error"])


def test_the_missing_pod_is_said_in_hamis_words() -> None:
    """As recorded."""
    assert _scene(CHOSEN).filter(b"{}")["Error"] == "extender args missing pod"


def test_odd_nodes_are_answered_in_band() -> None:
    """Also what is decoded late."""
    assert (
        "cannot be read" in _scene(CHOSEN).filter({"Pod": _POD, "Nodes": {"items": [1]}})["Error"]
    )
    assert "NodeNames" in _scene(CHOSEN).filter({"Pod": _POD, "NodeNames": [1]})["Error"]


def test_a_node_that_was_not_asked_about_is_never_named() -> None:
    """kube-scheduler has ruled out all others for reasons of its own."""
    answer = _scene(CHOSEN).filter(_names_form("gpu10", "gpu"))
    assert answer == _result(Error="gpu1 was not asked about")


def test_a_failure_costs_one_pod_its_answer() -> None:
    """The next is decided about as if nothing had been."""
    scene = _scene(CHOSEN)
    scene.chooser.error = ZeroDivisionError("no")
    assert "ZeroDivisionError" in scene.filter(_names_form("gpu1"))["Error"]
    scene.chooser.error = None
    assert scene.filter(_names_form("gpu1")) == _result(NodeNames=["gpu1"])


def test_a_follower_and_a_beginner_refuse() -> None:
    """Neither asks the chooser, whose answer would be unsound; a dry question needs neither."""
    scene = _scene(CHOSEN)
    scene.switch.reason = "another leads"
    assert scene.filter(_names_form("gpu1")) == _result(Error="another leads")
    scene.switch.reason, scene.state.problem = None, "pods not read"
    assert scene.filter(_names_form("gpu1")) == _result(Error="pods not read")
    assert not scene.chooser.asked
    assert scene.filter({"Pod": _POD, "Nodes": _NODES})["Nodes"]["items"]


def test_a_beginner_is_waited_for() -> None:
    """The first question may come before the first list has ended."""

    async def ask() -> bytes:
        state, metrics = MemoryState(problem="pods not read"), Metrics()
        gate = await open_gate(state, metrics)
        route = Filtering(ScriptedChooser(answer=CHOSEN), gate, metrics, wait_ready_s=20)
        asking = asyncio.create_task(route.filter(json.dumps(_names_form("gpu1")).encode()))
        await asyncio.sleep(0.05)
        assert not asking.done()
        state.problem = None
        return await asking

    assert json.loads(asyncio.run(ask())) == _result(NodeNames=["gpu1"])


def test_scores_are_a_list_of_hosts() -> None:
    """In the order in which they were asked for; there is no place for an error but the status."""
    scene = _scene(CHOSEN)
    scene.chooser.points = [("a", 0), ("b", 10)]
    status, text = scene.prioritize(_names_form("a", "b"))
    assert (status, json.loads(text)) == (
        200,
        [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 10}],
    )
    assert scene.prioritize({"Pod": _POD, "Nodes": _NODES})[0] == 200
    assert scene.chooser.asked[-1] == (_POD, ("gpu1", "cpu1"))
    scene.chooser.points = Failed("odd weights")
    assert scene.prioritize(_names_form("a")) == (500, b"odd weights")
    assert scene.prioritize({})[0] == 400
    scene.switch.reason = "another leads"
    assert scene.prioritize(_names_form("a")) == (503, b"another leads")


@pytest.fixture
def _logging() -> Iterator[None]:
    """Leave logging as it was."""
    before, root = structlog.get_config(), logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_logging")
@pytest.mark.parametrize(
    "answer",
    [
        Chosen(node="n" * 200, score=1 / 3),
        Unfit(failed={}, reasons={f"Reason{each}WithALongName": each for each in range(50)}),
        Failed("x" * 1000),
        NotAsked(),
    ],
)
def test_a_decision_is_one_short_line_of_the_log(answer: Answer) -> None:
    """At most 300 bytes however long names and reasons are."""
    names = [answer.node] if isinstance(answer, Chosen) else ["a"]
    pod = {"metadata": {"namespace": "n" * 63, "name": "p" * 253}}
    written = io.StringIO()
    logs.configure("info", json=True, stream=written, for_good=False)
    _scene(answer).filter({"Pod": pod, "NodeNames": names})
    lines = written.getvalue().splitlines(keepends=True)
    assert len(lines) == 1
    assert json.loads(lines[0])["event"] == "pod filtered"
    assert len(lines[0].encode()) <= 300
